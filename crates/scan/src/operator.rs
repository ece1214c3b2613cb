//! What operators of ours tell DataFusion alike.

/// Methods for an `impl ExecutionPlan`: how inputs are replaced, and that there are no expressions.
///
/// ```ignore
/// ishigaki_scan::operator!(leaf);                       // no inputs
/// ishigaki_scan::operator!(input by on);                // one, the field `input`; `on` makes the same over others
/// ishigaki_scan::operator!(no expressions);
/// ```
#[macro_export]
macro_rules! operator {
    (leaf) => {
        fn children(&self) -> Vec<&::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>> {
            Vec::new()
        }

        $crate::operator!(replaced by |plan, _| Ok(plan));
    };
    (no expressions) => {
        fn apply_expressions(
            &self,
            _: &mut dyn FnMut(
                &::std::sync::Arc<dyn ::datafusion::physical_plan::PhysicalExpr>,
            )
                -> ::datafusion::error::Result<::datafusion::common::tree_node::TreeNodeRecursion>,
        ) -> ::datafusion::error::Result<::datafusion::common::tree_node::TreeNodeRecursion> {
            Ok(::datafusion::common::tree_node::TreeNodeRecursion::Continue)
        }
    };
    (replaced by |$plan:ident, $inputs:pat_param| $replaced:expr) => {
        fn replace_children(
            self: ::std::sync::Arc<Self>,
            $inputs: Vec<::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>>,
            _: ::datafusion::physical_plan::execution_plan::ReplaceChildrenOptions,
        ) -> ::datafusion::error::Result<::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>> {
            let $plan = self;
            $replaced
        }

        fn with_new_children(
            self: ::std::sync::Arc<Self>,
            $inputs: Vec<::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>>,
        ) -> ::datafusion::error::Result<::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>> {
            let $plan = self;
            $replaced
        }
    };
    ($input:ident by $on:ident) => {
        fn children(&self) -> Vec<&::std::sync::Arc<dyn ::datafusion::physical_plan::ExecutionPlan>> {
            vec![&self.$input]
        }

        $crate::operator!(replaced by |plan, inputs| plan.$on(inputs));
    };
}
