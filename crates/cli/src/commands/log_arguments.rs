//! How the write-ahead log works, as arguments of every command that opens a database.

use clap::Args;
use ishigaki_base::ByteSize;
use ishigaki_wal::{CommitRule, LogKind, Settings};

use crate::failure::Failure;

/// Settings of the log. What is not given keeps its default.
#[derive(Debug, Args)]
#[command(next_help_heading = "Write-ahead log")]
pub(crate) struct LogArguments {
    /// How records get to the medium: parallel (several streams, each written by whoever waits), serial (one buffer and a
    /// thread that writes it) or epoch (everybody is answered every 40 ms)
    #[arg(long, value_name = "KIND")]
    log: Option<LogKind>,

    /// What a commit waits for: dependencies (what it read and wrote) or watermark (everything before it)
    #[arg(long, value_name = "RULE")]
    commit: Option<CommitRule>,

    /// Streams of the log that sessions are given; by default one for every two cores, up to 8
    #[arg(long, value_name = "NUMBER")]
    streams: Option<u16>,

    /// Bytes of each new segment of the log, as in 16MiB
    #[arg(long, value_name = "SIZE")]
    segment: Option<ByteSize>,
}

impl LogArguments {
    /// The settings that were given, over the defaults. Values that can not be are an error of the command line.
    pub(crate) fn settings(&self) -> Result<Settings, Failure> {
        let mut settings = Settings::default();
        settings.kind = self.log.unwrap_or(settings.kind);
        settings.commit = self.commit.unwrap_or(settings.commit);
        settings.streams = self.streams.unwrap_or(settings.streams);
        settings.segment = self.segment.unwrap_or(settings.segment);
        settings.validate().map_err(|error| Failure::usage(error.to_string()))?;
        Ok(settings)
    }
}
