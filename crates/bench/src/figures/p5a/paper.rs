//! What the author of paper 5 found (chapter 2, sections 2.6.2 to 2.6.5), and what we aim at.

/// At most so long could clients not reach a server while it was replaced: seconds.
pub(super) const CUT_OVER: f64 = 3.0;

/// What the post-copy took of the time of a direct pre-copy, at worst: of rsync's over NFS, of robocopy's over SMB.
pub(super) const OVER_PRE_COPY: [(&str, f64); 2] = [("nfs", 2.30), ("smb", 3.39)];

/// The longest first access, to a file 16 directories deep with 1000 names in each: seconds.
pub(super) const FIRST_ACCESS: [(&str, f64); 2] = [("nfs", 84.55), ("smb", 23.25)];

/// What the mixed work lost while the migration was under way, of all.
pub(super) const LOST_DURING: [(&str, f64); 2] = [("nfs", 0.54), ("smb", 0.74)];

/// What 99% of the files stay within when half of the time of a breadth-first migration is over, metadata first and all at once: seconds.
pub(super) const HALF_DONE: [(&str, [f64; 2]); 2] = [("nfs", [5.83, 11.25]), ("smb", [0.82, 4.63])];

/// What we aim at: until a client is served, in seconds.
pub(super) const AIM_CUT_OVER: f64 = 1.0;
/// The time over rsync's: of each tree over the near link, of the many small files over the long one.
pub(super) const AIMS_OVER_RSYNC: [(&str, f64); 2] = [("lan", 1.0), ("wan", 0.5)];
/// The mixed work on a tree that is here, over that in a bare directory.
pub(super) const AIM_DONE: f64 = 0.9;
