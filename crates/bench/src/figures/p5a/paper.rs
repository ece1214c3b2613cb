//! What the author of paper 5 found (chapter 2, sections 2.6.2 and 2.6.3).

/// At most so long could clients not reach a server while it was replaced: seconds.
pub(super) const CUT_OVER: f64 = 3.0;

/// What the post-copy took of the time of rsync on the new server, over NFS, at worst.
pub(super) const OVER_RSYNC: f64 = 2.30;

/// What we aim at: until a client is served, in seconds; and the time over rsync's, on either link.
pub(super) const AIM_CUT_OVER: f64 = 1.0;
pub(super) const AIMS_OVER_RSYNC: [(&str, f64); 2] = [("lan", 1.0), ("wan", 0.5)];
