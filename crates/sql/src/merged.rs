//! The columns that joins merge by USING and NATURAL, found before a statement is planned.
//!
//! DataFusion takes the left side's column for the merged one, which is NULL where RIGHT and FULL JOIN have a row of the right
//! side alone, and it does not know every name of such a join in every clause. So this pass makes a join with ON of each, and
//! puts in the place of the merged column what `PostgreSQL` takes: the left column for INNER and LEFT, the right one for RIGHT,
//! and for FULL the `coalesce` of both. It writes `*` out where that needs it, or where names would be there twice.
//!
//! The columns of tables come from the catalog, those of subqueries and CTEs from their select lists: see [`columns`]. Which
//! columns a FROM shows is a [`Side`].

mod columns;
mod side;
mod written_out;

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, JoinConstraint, JoinOperator, OrderBy, OrderByExpr, OrderByKind, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, Statement, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins,
    Visit, VisitMut, Visitor, VisitorMut, WildcardAdditionalOptions,
};

use crate::current::Current;
use crate::statement::{identifier, marked, tell_apart};
use crate::view::ViewDefinition;
use crate::{Error, Result};
use side::{Found, Kind, Side};

pub(crate) use written_out::write_out;

/// Resolves the merged columns of a statement, or of the query of a view. Where a join merges columns of two types, they are to be of
/// `one_type`; else the one column stands for both, which is the same thing then, and is grouped by, and found, as such. Whether there are any.
pub(crate) fn resolve(
    current: &Current,
    view: Option<&ViewDefinition>,
    statement: &mut Statement,
    one_type: bool,
) -> Result<bool> {
    if Visit::visit(&*statement, &mut Looks).is_continue() {
        return Ok(false);
    }
    let mut resolver = Resolver::new(current, view);
    resolver.one_type = one_type;
    match VisitMut::visit(statement, &mut resolver) {
        ControlFlow::Continue(()) => Ok(resolver.merges),
        ControlFlow::Break(error) => Err(*error),
    }
}

/// Breaks where there is anything to do.
struct Looks;

impl Visitor for Looks {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        let several = select.projection.len() > 1 && select.projection.iter().any(is_wildcard);
        found(several || select.from.iter().any(merges))
    }

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let Some(OrderBy { kind: OrderByKind::Expressions(orders), .. }) = &query.order_by else {
            return ControlFlow::Continue(());
        };
        let computes = orders.iter().any(|order| !matches!(order.expr, Expr::Identifier(_) | Expr::Value(_)));
        let Some(select) = query.body.as_select().filter(|_| computes) else { return ControlFlow::Continue(()) };
        found(!columns::new_names(&select.projection).is_empty())
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<()> {
        match table {
            TableFactor::NestedJoin { table_with_joins, .. } => found(merges(table_with_joins)),
            TableFactor::Derived { alias, subquery, .. } => {
                let named = alias.as_ref().is_some_and(|alias| !alias.columns.is_empty());
                let all = subquery.body.as_select().is_some_and(|select| select.projection.iter().any(is_wildcard));
                found(named || all)
            }
            TableFactor::Table { alias: Some(alias), .. } => found(!alias.columns.is_empty()),
            _ => ControlFlow::Continue(()),
        }
    }
}

fn found(found: bool) -> ControlFlow<()> {
    if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

fn is_wildcard(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
}

/// Whether a join among these, or inside of one, merges columns.
fn merges(tables: &TableWithJoins) -> bool {
    let inside = |table: &TableFactor| matches!(table, TableFactor::NestedJoin { table_with_joins, .. } if merges(table_with_joins));
    inside(&tables.relation)
        || tables.joins.iter().any(|join| {
            let mut operator = join.join_operator.clone();
            let own = constraint(&mut operator).is_some_and(|(constraint, _)| {
                matches!(constraint, JoinConstraint::Using(_) | JoinConstraint::Natural)
            });
            own || inside(&join.relation)
        })
}

/// What a join compares, and which rows it fills up.
fn constraint(operator: &mut JoinOperator) -> Option<(&mut JoinConstraint, Kind)> {
    match operator {
        JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => Some((constraint, Kind::Inner)),
        JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => Some((constraint, Kind::Left)),
        JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => Some((constraint, Kind::Right)),
        JoinOperator::FullOuter(constraint) => Some((constraint, Kind::Full)),
        _ => None,
    }
}

/// Names of columns, where they have one.
type Columns = Vec<Option<String>>;

/// A query around the place that is looked at.
#[derive(Default)]
struct Frame {
    ctes: Vec<(String, Option<Columns>)>,
    /// Of its SELECT, until that is entered.
    scope: Option<Scope>,
    order_by: Option<OrderBy>,
    /// What its columns are called, where its SELECT calls some otherwise.
    names: Option<Vec<(Ident, Ident)>>,
    /// Whether it is a subquery of FROM, or a CTE.
    is_derived: bool,
    /// How many of its CTEs are still to be visited.
    ctes_left: usize,
}

/// What unqualified names may mean.
enum Scope {
    /// Columns of a FROM.
    Columns(Side),
    /// A FROM of which not all is known.
    Unknown,
    /// What is inside does not see the next scope further outside.
    Wall,
}

/// Boxed, because the visitor carries it through deep trees.
type Step<T = ()> = ControlFlow<Box<Error>, T>;

fn step<T>(result: Result<T>) -> Step<T> {
    match result {
        Ok(value) => ControlFlow::Continue(value),
        Err(error) => ControlFlow::Break(Box::new(error)),
    }
}

struct Resolver<'a> {
    current: &'a Current,
    /// Whose query it is, if it is a view's, which sees the columns that there were when it was made.
    view: Option<&'a ViewDefinition>,
    queries: Vec<Frame>,
    scopes: Vec<Scope>,
    /// Whether the next query is a subquery of FROM.
    is_derived: bool,
    /// Whether merged columns are to be of one type.
    one_type: bool,
    /// Whether there are merged columns.
    merges: bool,
    /// New names of a result's columns that are those of other columns in its ORDER BY.
    clashes: HashSet<String>,
}

impl VisitorMut for Resolver<'_> {
    type Break = Box<Error>;

    fn pre_visit_query(&mut self, query: &mut Query) -> Step {
        let mut is_derived = std::mem::take(&mut self.is_derived);
        if let Some(outer) = self.queries.last_mut()
            && outer.ctes_left > 0
        {
            outer.ctes_left -= 1;
            is_derived = true;
        }
        let ctes_left = query.with.as_ref().map_or(0, |with| with.cte_tables.len());
        self.queries.push(Frame { is_derived, ctes_left, ..Frame::default() });
        step(self.define(query))?;
        // Before its CTEs, its FROM and ORDER BY are looked at.
        let ctes_left = std::mem::take(&mut self.frame().ctes_left);
        let mut order_by = query.order_by.take();
        if let SetExpr::Select(select) = query.body.as_mut() {
            let scope = step(self.enter(select))?;
            if let Some(OrderBy { kind: OrderByKind::Expressions(expressions), .. }) = &mut order_by {
                let scope = self.order(expressions, &mut select.projection, scope)?;
                self.frame().scope = Some(scope);
            } else {
                self.frame().scope = Some(scope);
            }
        }
        self.frame().order_by = order_by;
        self.frame().ctes_left = ctes_left;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> Step {
        let Some(frame) = self.queries.pop() else { return ControlFlow::Continue(()) };
        query.order_by = frame.order_by;
        if let Some(names) = frame.names {
            columns::call(query, &names);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> Step {
        let scope = match self.frame().scope.take() {
            Some(scope) => scope,
            None => step(self.enter(select))?,
        };
        self.scopes.push(scope);
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &mut Select) -> Step {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> Step {
        step(self.complete(table))?;
        if let TableFactor::Derived { lateral, .. } = table {
            self.is_derived = true;
            if !*lateral {
                self.scopes.push(Scope::Wall);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_table_factor(&mut self, table: &mut TableFactor) -> Step {
        if let TableFactor::Derived { lateral: false, .. } = table {
            self.scopes.pop();
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expression: &mut Expr) -> Step {
        if let Expr::CompoundIdentifier(parts) = expression {
            if let Some(name) = parts.last().map(identifier)
                && self.scopes.iter().any(|scope| matches!(scope, Scope::Columns(side) if side.outputs.contains(&name)))
            {
                self.clashes.insert(name);
            }
            return ControlFlow::Continue(());
        }
        let Expr::Identifier(name) = expression else { return ControlFlow::Continue(()) };
        let name = identifier(name);
        let mut scopes = self.scopes.iter().rev();
        // In an expression of ORDER BY, it is one at most where no table has a column of that name.
        let mut is_output = false;
        while let Some(scope) = scopes.next() {
            match scope {
                Scope::Wall => drop(scopes.next()),
                Scope::Unknown => break,
                Scope::Columns(side) => match side.find(&name) {
                    Found::None => is_output |= side.outputs.contains(&name),
                    Found::Several if side.outputs.contains(&name) => {
                        return refuse_order(&name, "which is a column of several tables of FROM");
                    }
                    Found::One(_) if is_output => {
                        return refuse_order(&name, "which is a column of a query around this one");
                    }
                    Found::Several => break,
                    Found::One(column) => {
                        let other_name = column.is_merged || side.in_on || side.outputs.contains(&name);
                        if let Some(other) = column.expression.as_ref().filter(|_| other_name) {
                            if side.outputs.contains(&name) {
                                self.clashes.insert(name);
                            }
                            *expression = other.clone();
                        }
                        break;
                    }
                },
            }
        }
        ControlFlow::Continue(())
    }
}

/// A name in an expression of ORDER BY that could be taken for what it is not.
fn refuse_order<T>(name: &str, what: &str) -> Step<T> {
    ControlFlow::Break(Box::new(Error::unsupported(
        format!("ORDER BY an expression over {name}, {what}, and a new name of a result's column"),
        "give the result's column another name, or order by its name alone",
    )))
}

impl<'a> Resolver<'a> {
    fn new(current: &'a Current, view: Option<&'a ViewDefinition>) -> Self {
        let (queries, scopes, clashes) = (Vec::new(), Vec::new(), HashSet::new());
        Self { current, view, queries, scopes, is_derived: false, one_type: false, merges: false, clashes }
    }

    /// Resolves the names of an ORDER BY. That of a result's column goes before that of a table's where it stands alone; in
    /// an expression only those of tables count.
    fn order(&mut self, orders: &mut [OrderByExpr], items: &mut [SelectItem], mut scope: Scope) -> Step<Scope> {
        let (outputs, new) = (columns::selected(items), columns::new_names(items));
        if let Scope::Columns(side) = &mut scope {
            side.outputs.clone_from(&new);
        }
        let is_unknown = matches!(scope, Scope::Unknown);
        self.scopes.push(scope);
        let before = std::mem::take(&mut self.clashes);
        for order in orders.iter_mut() {
            let mut alone = &order.expr;
            while let Expr::Nested(inner) = alone {
                alone = inner;
            }
            if matches!(alone, Expr::Identifier(name) if outputs.contains(&identifier(name))) {
                continue;
            }
            if let Some(alias) = columns::alias_of(items, alone) {
                order.expr = Expr::Identifier(alias);
                continue;
            }
            if is_unknown && let Some(name) = columns::one_of(&order.expr, &new) {
                refuse_order(&name, "which may be a column of FROM")?;
            }
            VisitMut::visit(&mut order.expr, self)?;
        }
        let clashes = std::mem::replace(&mut self.clashes, before);
        if let Some(name) = clashes.iter().next()
            && self.frame().is_derived
        {
            let Some(names) = columns::called(items, &clashes) else {
                return refuse_order(name, "which is a column of FROM, in a subquery of FROM or a WITH");
            };
            self.frame().names = Some(names);
        }
        columns::rename(&clashes, items, orders);
        let mut scope = self.scopes.pop().unwrap_or(Scope::Unknown);
        if let Scope::Columns(side) = &mut scope {
            side.outputs.clear();
        }
        ControlFlow::Continue(scope)
    }

    /// The innermost query.
    fn frame(&mut self) -> &mut Frame {
        if self.queries.is_empty() {
            self.queries.push(Frame::default());
        }
        let last = self.queries.len() - 1;
        &mut self.queries[last]
    }

    /// Makes plain joins of those of a SELECT, and writes its columns out; what its names mean.
    fn enter(&mut self, select: &mut Select) -> Result<Scope> {
        let is_derived = self.frame().is_derived;
        let Some(side) = self.side(&mut select.from)? else { return Ok(Scope::Unknown) };
        let several = select.projection.len() > 1 && select.projection.iter().any(is_wildcard);
        if side.merges {
            select.projection = written_out(&select.projection, &side)?;
        } else if (several || is_derived && side.has_duplicates())
            && let Ok(items) = written_out(&select.projection, &side)
        {
            select.projection = items;
        }
        for item in &mut select.projection {
            // What takes the column's place has another name.
            if let SelectItem::UnnamedExpr(Expr::Identifier(name)) = item
                && let Found::One(column) = side.find(&identifier(name))
                && column.is_merged
            {
                let alias = Ident::with_quote('"', identifier(name));
                *item = SelectItem::ExprWithAlias { expr: Expr::Identifier(name.clone()), alias };
            }
        }
        tell_apart(&mut select.projection, is_derived);
        Ok(Scope::Columns(side))
    }

    /// The columns of FROM, if all are known. Its joins become plain ones.
    fn side(&mut self, from: &mut [TableWithJoins]) -> Result<Option<Side>> {
        let mut all = Some(Side::default());
        for tables in from {
            let own = self.joined(tables)?;
            all = all.zip(own).map(|(all, own)| all.beside(own));
        }
        Ok(all)
    }

    fn joined(&mut self, tables: &mut TableWithJoins) -> Result<Option<Side>> {
        let merges = merges(tables);
        let mut left = self.factor(&mut tables.relation)?;
        for join in &mut tables.joins {
            let right = self.factor(&mut join.relation)?;
            let Some((constraint, kind)) = constraint(&mut join.join_operator) else {
                left = left.zip(right).map(|(left, right)| left.beside(right));
                continue;
            };
            left = match (constraint, left, right) {
                (JoinConstraint::On(condition), Some(left), Some(right)) => {
                    let mut both = left.beside(right);
                    if merges {
                        // It sees these two sides, and no table that comes later.
                        both.in_on = true;
                        self.scopes.push(Scope::Columns(both));
                        let visited = VisitMut::visit(condition, self);
                        let Some(Scope::Columns(back)) = self.scopes.pop() else { return Ok(None) };
                        if let ControlFlow::Break(error) = visited {
                            return Err(*error);
                        }
                        both = back;
                        both.in_on = false;
                    }
                    Some(both)
                }
                (JoinConstraint::None, Some(left), Some(right)) => Some(left.beside(right)),
                (constraint @ (JoinConstraint::Using(_) | JoinConstraint::Natural), Some(left), Some(right)) => {
                    let (side, condition) = left.merge(right, constraint, kind, self.one_type)?;
                    self.merges = true;
                    *constraint = JoinConstraint::On(condition);
                    Some(side)
                }
                (JoinConstraint::Using(_) | JoinConstraint::Natural, ..)
                    if matches!(kind, Kind::Right | Kind::Full) =>
                {
                    return Err(Error::unsupported(
                        "RIGHT or FULL JOIN with USING or NATURAL where the columns of a side are not known",
                        "write ON a.k = b.k, and select coalesce(a.k, b.k)",
                    ));
                }
                _ => None,
            };
        }
        Ok(left)
    }

    fn factor(&mut self, table: &mut TableFactor) -> Result<Option<Side>> {
        if let TableFactor::NestedJoin { table_with_joins, alias: None } = table {
            return self.joined(table_with_joins);
        }
        let Some(columns) = self.factor_columns(table)? else { return Ok(None) };
        let types = if self.one_type { self.factor_types(table)? } else { Vec::new() };
        let qualifier = match table {
            TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
                Some(alias.name.clone())
            }
            TableFactor::Table { name, .. } => name.0.last().and_then(|part| part.as_ident()).cloned(),
            _ => None,
        };
        Ok(qualifier.map(|qualifier| Side::of(&identifier(&qualifier), columns, &types)))
    }

    /// Gives all columns of a table a name where only the first ones have got one.
    fn complete(&mut self, table: &mut TableFactor) -> Result<()> {
        let (TableFactor::Table { alias: Some(TableAlias { columns, .. }), .. }
        | TableFactor::Derived { alias: Some(TableAlias { columns, .. }), .. }) = &*table
        else {
            return Ok(());
        };
        let given = columns.len();
        if given == 0 {
            return Ok(());
        }
        let Some(all) = self.factor_columns(table)? else { return Ok(()) };
        let Some(rest) = all.get(given..).map(<[_]>::to_vec).into_iter().flatten().collect::<Option<Vec<_>>>() else {
            return Ok(());
        };
        if let TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } = table {
            let mut seen: HashMap<String, usize> = HashMap::new();
            for name in alias.columns.iter().map(|column| identifier(&column.name)).chain(rest.iter().cloned()) {
                *seen.entry(name).or_default() += 1;
            }
            let named = |(name, at): (String, usize)| {
                // A name that several have means none of them.
                let name = if seen[&name] > 1 { marked(&name, at) } else { name };
                TableAliasColumnDef { name: Ident::with_quote('"', name), data_type: None }
            };
            alias.columns.extend(rest.into_iter().zip(given + 1..).map(named));
        }
        Ok(())
    }
}

/// A select list with the columns in the place of `*`.
fn written_out(projection: &[SelectItem], side: &Side) -> Result<Vec<SelectItem>> {
    let mut items = Vec::with_capacity(projection.len());
    for item in projection {
        match item {
            SelectItem::Wildcard(options) if is_plain(options) => items.extend(side.items(None)?),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
                if is_plain(options) && name.0.len() == 1 =>
            {
                let table = name.0[0].as_ident().map(identifier);
                items.extend(side.items(table.as_deref())?);
            }
            _ => items.push(item.clone()),
        }
    }
    Ok(items)
}

fn is_plain(options: &WildcardAdditionalOptions) -> bool {
    let plain = WildcardAdditionalOptions { wildcard_token: options.wildcard_token.clone(), ..Default::default() };
    *options == plain
}
