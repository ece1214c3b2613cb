//! Results that end in every way, and what is done about each.

use datafusion::arrow::array::{ArrayRef, Int64Array};
use datafusion::arrow::ipc::writer::StreamWriter;

use super::*;

fn batch() -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    RecordBatch::try_from_iter([("n", numbers)]).expect("a batch")
}

/// A stream with so many batches, and its length before the mark of its end.
fn stream(batches: usize) -> (Vec<u8>, usize) {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch().schema()).expect("a writer");
    (0..batches).for_each(|_| writer.write(&batch()).expect("written"));
    let open = writer.get_ref().len();
    (writer.into_inner().expect("finished"), open)
}

/// What comes of these pieces: how many rows were given and how many pieces were refused; `instead` gives three rows.
fn rows(pieces: Vec<Result<Piece>>) -> Result<(usize, usize)> {
    let set = ExecutionPlanMetricsSet::new();
    let metrics = Metrics::new(&set, 0);
    let refused = metrics.refused.clone();
    let (sender, receiver) = channel(pieces.len().max(1));
    for piece in pieces {
        sender.try_send(piece).expect("room for it");
    }
    drop(sender);
    let schema = batch().schema();
    let instead = || -> Result<SendableRecordBatchStream> {
        let batches = futures::stream::once(async { Ok(batch()) });
        Ok(Box::pin(RecordBatchStreamAdapter::new(batch().schema(), batches)))
    };
    let given = futures::executor::block_on(async {
        let batches: Vec<Result<RecordBatch>> =
            Arriving::new(receiver, schema, metrics).or(instead).await.collect().await;
        batches.into_iter().collect::<Result<Vec<_>>>()
    })?;
    Ok((given.iter().map(RecordBatch::num_rows).sum(), refused.value()))
}

fn failed(source: ishigaki_remote::Error) -> Result<Piece> {
    let failed = PushFailed { table: "t".to_owned(), place: "node://n:1/".to_owned(), source };
    Err(DataFusionError::External(Box::new(failed)))
}

fn refusal() -> Result<Piece> {
    failed(ishigaki_remote::Error::Refused { peer: "n:1".to_owned(), reason: "no room".to_owned() })
}

#[test]
fn a_stream_is_whole_from_its_schema_to_the_mark_of_its_end_and_missing_rows_are_an_error() {
    for batches in 0..3 {
        let (bytes, open) = stream(batches);
        for size in [1, 7, bytes.len()] {
            let pieces = |end: usize| bytes[..end].chunks(size).map(|piece| Ok(Piece::Bytes(piece.to_vec())));
            let whole = pieces(bytes.len()).chain([Ok(Piece::End)]).collect();
            assert_eq!(rows(whole).expect("whole"), (3 * batches, 0));
            // The thread that passes them on has gone, at whatever point.
            assert!(rows(pieces(bytes.len()).collect()).is_err(), "no end was said");
            assert!(rows(pieces(open).collect()).is_err(), "no end was said");
            // The node has lost them, between two messages, too.
            for end in [0, open / 2, open, bytes.len() - 1] {
                let error = rows(pieces(end).chain([Ok(Piece::End)]).collect()).expect_err("it is cut off");
                assert!(error.to_string().contains("rows may be missing"), "{end}: {error}");
            }
        }
    }
    assert_eq!(rows(vec![Ok(Piece::Nothing)]).expect("there was nothing to ask for"), (0, 0));
}

#[test]
fn work_that_a_node_has_answered_for_is_done_here_and_only_while_nothing_has_come() {
    assert_eq!(rows(vec![refusal()]).expect("done here"), (3, 1));
    let (bytes, open) = stream(1);
    assert!(rows(vec![Ok(Piece::Bytes(bytes[..open].to_vec())), refusal()]).is_err(), "rows have come already");
    let invalid = || ishigaki_device::Error::Invalid { name: "n:1".to_owned(), reason: "odd".to_owned() };
    assert_eq!(rows(vec![failed(invalid().into())]).expect("done here"), (3, 1), "the node's own answer");
    let ours = ishigaki_remote::Error::Invalid { reason: "too long".to_owned() };
    assert!(rows(vec![failed(ours)]).is_err(), "no answer of the node's");
}
