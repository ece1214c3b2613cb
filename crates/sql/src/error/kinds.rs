//! What errors of DataFusion's own mean to a caller.

use datafusion::arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use ishigaki_base::ErrorKind;

/// Why rows could not be spilled to disk, if that is what failed.
pub(super) fn why_not_spilled(error: &DataFusionError) -> Option<String> {
    let root = error.find_root();
    let io = match root {
        DataFusionError::IoError(io) => Some(io),
        DataFusionError::ArrowError(arrow, _) => match arrow.as_ref() {
            ArrowError::IoError(_, io) => Some(io),
            _ => None,
        },
        _ => None,
    };
    if io.is_some_and(|io| io.kind() == std::io::ErrorKind::StorageFull) {
        return Some("the disk is full".to_owned());
    }
    root.to_string().contains("max_temp_directory_size").then(|| "all of the limit is in use".to_owned())
}

/// What a caller can do about an error of DataFusion's own.
pub(super) fn kind_of(error: &DataFusionError) -> ErrorKind {
    match error.find_root() {
        DataFusionError::ResourcesExhausted(_) => ErrorKind::Exhausted,
        DataFusionError::ExecutionJoin(join) if join.is_cancelled() => ErrorKind::Cancelled,
        DataFusionError::IoError(_) | DataFusionError::ExecutionJoin(_) => ErrorKind::Unavailable,
        _ => ErrorKind::Invalid,
    }
}
