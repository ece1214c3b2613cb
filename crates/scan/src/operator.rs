//! What operators of ours tell DataFusion alike.

use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use datafusion::physical_plan::ExecutionPlan;

/// The input of an operator that has one.
///
/// # Errors
///
/// An internal one for any other number.
#[doc(hidden)]
pub fn only_input(inputs: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
    let [input] = <[_; 1]>::try_from(inputs)
        .map_err(|inputs| DataFusionError::Internal(format!("{} inputs of an operator that has one", inputs.len())))?;
    Ok(input)
}

/// Methods for an `impl ExecutionPlan`: how inputs are replaced, and that there are no expressions.
///
/// ```ignore
/// ishigaki_scan::operator!(leaf);                       // no inputs
/// ishigaki_scan::operator!(input by on);                // one, the field `input`; `on` makes the same over another
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

        $crate::operator!(replaced by |plan, inputs| plan.$on($crate::only_input(inputs)?));
    };
}
