use super::*;

fn own() -> Error {
    Error::NotNull { table: "t".to_owned(), column: "c".to_owned() }
}

fn is_own(error: &Error) -> bool {
    matches!(error.root(), Error::NotNull { table, column } if table == "t" && column == "c")
}

#[test]
fn an_error_comes_out_of_datafusion_as_it_went_in() {
    let inner = || DataFusionError::from(own());
    let arrow = || ArrowError::ExternalError(Box::new(own()));
    for wrapped in [
        inner(),
        inner().context("while inserting").context("and more"),
        DataFusionError::Shared(Arc::new(inner())),
        DataFusionError::Collection(vec![DataFusionError::Plan("other".to_owned()), inner()]),
        DataFusionError::ArrowError(Box::new(arrow()), None),
        DataFusionError::External(Box::new(inner())),
        DataFusionError::External(Box::new(arrow())),
        DataFusionError::ArrowError(Box::new(ArrowError::ExternalError(Box::new(inner().context("c")))), None),
        DataFusionError::ParquetError(Box::new(ParquetError::External(Box::new(own())))),
        DataFusionError::IoError(std::io::Error::other(own())),
    ] {
        let text = format!("{wrapped:?}");
        let error = Error::from(wrapped);
        assert!(matches!(error, Error::NotNull { .. }) && is_own(&error), "{text}");
    }
    let below = ishigaki_txn::Error::TableExists { name: "t".to_owned() };
    assert!(matches!(Error::from(DataFusionError::External(Box::new(below))), Error::Txn(_)));
}

#[test]
fn a_shared_error_is_seen_through() {
    let shared = Arc::new(DataFusionError::from(own()).context("twice"));
    let error = Error::from(DataFusionError::Shared(Arc::clone(&shared)));
    assert!(is_own(&error));
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(error.to_string(), own().to_string());
    assert!(is_own(&Error::from(DataFusionError::External(Box::new(shared)))));
}

#[test]
fn datafusion_errors_are_sorted_and_lose_their_headings() {
    let plan = Error::from(DataFusionError::Plan("no such thing".to_owned()).context("planning"));
    assert!(matches!(plan, Error::Plan { .. }));
    assert_eq!(plan.to_string(), "no such thing");
    let full = Error::from(DataFusionError::ResourcesExhausted("memory".to_owned()));
    assert_eq!((full.kind(), full.to_string().as_str()), (ErrorKind::Exhausted, "memory"));
    let syntax = Error::from(DataFusionError::SQL(Box::new(ParserError::ParserError("expected x".to_owned())), None));
    assert_eq!(syntax.to_string(), "syntax error: expected x");
}

#[test]
fn a_defect_of_the_planner_is_a_refusal_by_name() {
    let mismatch = ArrowError::InvalidArgumentError("column types must match schema types, expected A".to_owned());
    for (error, name) in [
        (DataFusionError::Internal("Physical input schema should be the same".to_owned()), "Physical input schema"),
        (DataFusionError::NotImplemented("Physical plan does not support Exists(..)".to_owned()), "a subquery in"),
        (DataFusionError::ArrowError(Box::new(mismatch), None), "column types must match"),
    ] {
        let error = Error::from(error.context("optimizing").context("and more"));
        let text = error.to_string();
        assert!(matches!(error, Error::Unsupported { .. }) && text.contains(name), "{text}");
        assert!(!text.contains("bug") && !text.contains("nternal"), "{text}");
    }
}

#[test]
fn only_a_conflict_or_a_closed_log_breaks_the_transaction() {
    assert!(Error::Aborted.breaks_transaction());
    assert!(!own().breaks_transaction());
    assert!(!Error::Cancelled.breaks_transaction());
}
