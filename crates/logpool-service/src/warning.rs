//! What a member's owner should see to before its server gets errors.

use ishigaki_base::ByteSize;
use ishigaki_logpool::{MemberStatistics, Profile, Quota};

/// From this part of a limit on, in percent, it is told.
const NEAR: u64 = 80;

/// What a member has used of a limit, in percent.
fn percent(used: u64, limit: u64) -> u64 {
    (u128::from(used) * 100 / u128::from(limit.max(1))) as u64
}

/// Which limits a member is near to: a sentence for each.
pub(crate) fn near(name: &str, home: u64, files: u64, quota: Quota) -> Vec<String> {
    let mut near = Vec::new();
    let home_used = percent(home, quota.home.0);
    if home_used >= NEAR {
        let (used, more) = (ByteSize(home), quota.home.0.div_ceil(1 << 20) * 2);
        near.push(format!(
            "its files take {used}, {home_used} % of its home of {}; `ishigaki log set {name} home={more}MiB` gives it more before its server gets `No space left on device`",
            quota.home
        ));
    }
    let files_used = percent(files, quota.files.into());
    if files_used >= NEAR {
        near.push(format!(
            "it has {files} files and folders, {files_used} % of {}; `ishigaki log set {name} files={}` allows more",
            quota.files,
            quota.files.saturating_mul(2).min(1 << 16)
        ));
    }
    near
}

/// The home that is advised for a kind of server as it is by default, and why.
fn advised(profile: &Profile) -> Option<(ByteSize, &'static str)> {
    match profile.name {
        "postgresql" => Some((
            ByteSize::gib(3),
            "its max_wal_size, 1GB by default, is a soft limit: under load, and while an archive or a standby is behind, it writes more",
        )),
        "mariadb" => Some((
            ByteSize::mib(256),
            "it makes a new redo log beside the old one (innodb_log_file_size, 96M by default) when its size is changed",
        )),
        _ => None,
    }
}

/// All that should be seen to.
pub(crate) fn all(name: &str, profile: &Profile, figures: &MemberStatistics) -> Vec<String> {
    let quota = figures.quota;
    let mut all = near(name, figures.home, figures.files, quota);
    if let Some((home, why)) = advised(profile).filter(|(home, _)| quota.home < *home) {
        all.push(format!("its home is {}, and {home} is advised for {profile}: {why}", quota.home));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_told_when_four_fifths_of_it_are_used_and_not_before() {
        let quota = Quota { home: ByteSize::mib(100), files: 10, ..Quota::default() };
        let told = |home: u64, files| near("orders", home << 20, files, quota);
        assert_eq!(told(79, 7), [""; 0]);
        let [home] = &told(80, 7)[..] else { panic!("one sentence") };
        assert!(home.contains("80 % of its home of 100.0 MiB; `ishigaki log set orders home=200MiB`"), "{home}");
        let [files] = &told(1, 8)[..] else { panic!("one sentence") };
        assert!(files.contains("80 % of 10; `ishigaki log set orders files=20`"), "{files}");
    }
}
