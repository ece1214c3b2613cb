//! Fragments: work on the pages of one file that travels to the node that has them.
//!
//! A fragment names a page file, pages of it, and what is to be done: a filter, columns, and then steps, such as a partial
//! aggregate. It is made from a physical plan here ([`Fragment::encode`]), taken for an enemy's there
//! ([`Fragment::decode`]), and becomes a physical plan again ([`plan`](Fragment::plan)): of the same operators over the
//! same pages, so its results are those that the client would have had itself.
//!
//! What is in a fragment is closed: expressions of a few kinds over columns and constants ([`expression`]), and five
//! aggregates. A plan that has anything else is not pushed; nothing that a client says names code. It is pictured in
//! `docs/format/fragment.md`.
//!
//! Parts: [`expression`], [`step`], [`runs`] of pages, [`constants`] and types, [`wire`] for numbers and texts.

mod constants;
pub(crate) mod expression;
mod plan;
mod runs;
pub(crate) mod step;
mod wire;

use datafusion::arrow::datatypes::SchemaRef;
use ishigaki_remote::MAX_ORDER;

use constants::Constants;
use expression::Expression;
use step::Step;
use wire::Cursor;

pub(crate) use plan::Site;
pub(crate) use runs::{Run, Runs};

/// How a fragment begins.
const MAGIC: [u8; 8] = *b"ISGFRAG2";

/// Steps behind the scan.
const MOST_STEPS: usize = 4;

/// Runs of pages.
const MOST_RUNS: usize = 65_536;

/// Why a plan can not travel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} can not be pushed")]
pub(crate) struct NotPushable(pub(crate) String);

/// Why a fragment is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the fragment is refused: {0}")]
pub(crate) struct Refused(pub(crate) String);

impl Refused {
    pub(crate) fn because(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// Work on pages of one file.
#[derive(Clone, Debug)]
pub(crate) struct Fragment {
    /// Below the node's folder.
    pub(crate) directory: String,
    pub(crate) file: String,
    /// All columns that the file must have.
    pub(crate) columns: SchemaRef,
    pub(crate) runs: Runs,
    /// Over these columns.
    pub(crate) filter: Option<Expression>,
    /// Which of them come out of the scan.
    pub(crate) projection: Vec<usize>,
    /// So many rows of the scan are enough.
    pub(crate) limit: Option<u64>,
    /// What is done with these, one after the other.
    pub(crate) steps: Vec<Step>,
}

impl Fragment {
    /// As bytes.
    pub(crate) fn encode(&self) -> Result<Vec<u8>, NotPushable> {
        let (mut body, mut constants) = (Vec::new(), Constants::default());
        wire::put_text(&mut body, &self.directory);
        wire::put_text(&mut body, &self.file);
        wire::put_count(&mut body, self.runs.len());
        for run in self.runs.iter() {
            for number in [run.pages.start, run.pages.end, run.segments.0, run.segments.1] {
                body.extend_from_slice(&number.to_le_bytes());
            }
        }
        wire::put_option(&mut body, self.filter.as_ref(), |body, filter| filter.encode(body, &mut constants));
        wire::put_count(&mut body, self.projection.len());
        self.projection.iter().for_each(|&column| wire::put_count(&mut body, column));
        wire::put_option(&mut body, self.limit.as_ref(), |body, limit| body.extend_from_slice(&limit.to_le_bytes()));
        wire::put_count(&mut body, self.steps.len());
        self.steps.iter().for_each(|step| step.encode(&mut body, &mut constants));
        let mut bytes = MAGIC.to_vec();
        wire::put_text(&mut bytes, datafusion::DATAFUSION_VERSION);
        constants::put_columns(&mut bytes, &self.columns)?;
        constants.encode(&mut bytes)?;
        bytes.extend_from_slice(&body);
        if bytes.len() > MAX_ORDER || self.steps.len() > MOST_STEPS || self.runs.len() > MOST_RUNS {
            return Err(NotPushable(format!("a plan of {} bytes", bytes.len())));
        }
        Ok(bytes)
    }

    /// Of bytes that anybody may have made.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Refused> {
        let Some(rest) = bytes.strip_prefix(&MAGIC) else {
            return Err(Refused::because("it is none of this version of the format"));
        };
        let mut from = Cursor::new(rest);
        let engine = from.text()?;
        if engine != datafusion::DATAFUSION_VERSION {
            // Partial aggregates of one version need not be another's.
            return Err(Refused::because(format!(
                "its client stands on DataFusion {engine} and this node on {}; run the same program on both sides, or SET \
                 ishigaki.placement = 'fetch'",
                datafusion::DATAFUSION_VERSION
            )));
        }
        let columns = constants::columns(&mut from)?;
        let constants = Constants::decode(&mut from)?;
        let (directory, file) = (from.text()?.to_owned(), from.text()?.to_owned());
        let run = |from: &mut Cursor<'_>| {
            let pages = from.u64()?..from.u64()?;
            Ok(Run { pages, segments: (from.u64()?, from.u64()?) })
        };
        let runs = Runs::checked(from.list(MOST_RUNS, run)?)?;
        let filter = from.option(|from| Expression::decode(from, &constants))?;
        let projection = from.list(columns.fields().len(), Cursor::count)?;
        let limit = from.option(Cursor::u64)?;
        let steps = from.list(MOST_STEPS, |from| Step::decode(from, &constants))?;
        from.end()?;
        Ok(Self { directory, file, columns, runs, filter, projection, limit, steps })
    }
}

#[cfg(test)]
mod tests;
