//! Named windows: what `WINDOW w AS (…)` says is put where `OVER w` and `OVER (w …)` stand, which DataFusion would take for
//! an empty window.
//!
//! A window may extend one that is defined before it, by the rules of `PostgreSQL`: it keeps the partition, adds an order
//! where there is none, and must not extend one that has a frame. A name that finds no definition, or one that can not be
//! extended so, is left in the tree, where `check` refuses it.

use datafusion::sql::sqlparser::ast::{
    DataType, Expr, NamedWindowDefinition, NamedWindowExpr, Query, Select, SetExpr, WindowFrame, WindowFrameBound,
    WindowFrameUnits, WindowSpec, WindowType,
};

use super::cast;
use crate::statement::{function_name, identifier};

/// The windows that can be named where the visitor is: those of the innermost SELECT, or of the one that an ORDER BY is of.
#[derive(Default)]
pub(super) struct Scopes {
    scopes: Vec<Vec<(String, WindowSpec)>>,
}

impl Scopes {
    /// An ORDER BY behind a SELECT knows its windows.
    pub(super) fn enter_query(&mut self, query: &Query) {
        self.scopes.push(match query.body.as_ref() {
            SetExpr::Select(select) => definitions(&select.named_window),
            _ => Vec::new(),
        });
    }

    pub(super) fn leave_query(&mut self, query: &mut Query) {
        self.scopes.pop();
        // What could be resolved has been. Other definitions stay: they are wrong, and to be refused.
        let mut rest = vec![query.body.as_mut()];
        while let Some(body) = rest.pop() {
            match body {
                SetExpr::Select(select) if definitions(&select.named_window).len() == select.named_window.len() => {
                    select.named_window.clear();
                }
                SetExpr::SetOperation { left, right, .. } => rest.extend([left.as_mut(), right.as_mut()]),
                _ => {}
            }
        }
    }

    pub(super) fn enter_select(&mut self, select: &Select) {
        self.scopes.push(definitions(&select.named_window));
    }

    pub(super) fn leave_select(&mut self) {
        self.scopes.pop();
    }

    /// Puts the definition in the place of the name.
    pub(super) fn resolve(&self, expression: &mut Expr) {
        let Expr::Function(function) = expression else { return };
        let Some(over) = &mut function.over else { return };
        let known = self.scopes.last().map_or(&[][..], Vec::as_slice);
        let resolved = match over {
            WindowType::NamedWindow(name) => find(known, &identifier(name)).cloned(),
            WindowType::WindowSpec(spec) => extended(known, spec),
        };
        if let Some(spec) = resolved {
            *over = WindowType::WindowSpec(framed(spec));
        }
    }
}

/// A window with the frame that it has where none is written: to the last of the rows that the order does not tell from this one.
/// DataFusion would end it at the row itself where it takes a column of the order for a key.
fn framed(spec: WindowSpec) -> WindowSpec {
    if spec.order_by.is_empty() || spec.window_frame.is_some() {
        return spec;
    }
    let frame = WindowFrame {
        units: WindowFrameUnits::Range,
        start_bound: WindowFrameBound::Preceding(None),
        end_bound: Some(WindowFrameBound::CurrentRow),
    };
    WindowSpec { window_frame: Some(frame), ..spec }
}

/// Numbers of rows are BIGINT, and those of tiles INTEGER; DataFusion's have no sign, and would be taken for wider ones.
pub(super) fn with_sign(expression: &mut Expr) {
    let Expr::Function(function) = expression else { return };
    let of = match function_name(function).as_deref() {
        Some("row_number" | "rank" | "dense_rank") => DataType::BigInt(None),
        Some("ntile") => DataType::Int(None),
        _ => return,
    };
    if function.over.is_some() {
        *expression = cast(expression.clone(), of);
    }
}

/// What the definitions of a SELECT come to, up to the first that is wrong.
fn definitions(windows: &[NamedWindowDefinition]) -> Vec<(String, WindowSpec)> {
    let mut known: Vec<(String, WindowSpec)> = Vec::new();
    for NamedWindowDefinition(name, window) in windows {
        let name = identifier(name);
        let spec = match window {
            NamedWindowExpr::NamedWindow(other) => find(&known, &identifier(other)).cloned(),
            NamedWindowExpr::WindowSpec(spec) => extended(&known, spec),
        };
        match spec {
            Some(spec) if find(&known, &name).is_none() => known.push((name, spec)),
            _ => break,
        }
    }
    known
}

fn find<'a>(known: &'a [(String, WindowSpec)], name: &str) -> Option<&'a WindowSpec> {
    known.iter().find(|(known, _)| known == name).map(|(_, spec)| spec)
}

/// A window with what it takes from the one that it names.
fn extended(known: &[(String, WindowSpec)], spec: &WindowSpec) -> Option<WindowSpec> {
    let Some(name) = &spec.window_name else { return Some(spec.clone()) };
    let base = find(known, &identifier(name))?;
    let adds_twice = !base.order_by.is_empty() && !spec.order_by.is_empty();
    if !spec.partition_by.is_empty() || adds_twice || base.window_frame.is_some() {
        return None;
    }
    let order_by = if spec.order_by.is_empty() { &base.order_by } else { &spec.order_by };
    Some(WindowSpec {
        window_name: None,
        partition_by: base.partition_by.clone(),
        order_by: order_by.clone(),
        window_frame: spec.window_frame.clone(),
    })
}
