//! Days as years, months and days of the month, of the Gregorian calendar at all times: there is a year 0, which is 1 BC.

/// A day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Day {
    /// 0 is 1 BC.
    pub year: i64,
    /// From 1 to 12.
    pub month: i64,
    /// From 1 to 31.
    pub day: i64,
}

impl Day {
    /// Of days since 1970 (Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
    pub fn of(days: i64) -> Self {
        let days = days + 719_468;
        let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * of_year + 2) / 153;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        Self { year, month, day: of_year - (153 * shifted + 2) / 5 + 1 }
    }

    /// Days since 1970 (the same paper, `days_from_civil`).
    pub fn days(self) -> i64 {
        let year = self.year - i64::from(self.month <= 2);
        let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
        let shifted = if self.month > 2 { self.month - 3 } else { self.month + 9 };
        let of_year = (153 * shifted + 2) / 5 + self.day - 1;
        era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year - 719_468
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_the_whole_range_have_their_date() {
        for (days, (year, month, day)) in [
            (0, (1970, 1, 1)),
            (-1, (1969, 12, 31)),
            (19_782, (2024, 2, 29)),
            (-719_162, (1, 1, 1)),
            (-719_163, (0, 12, 31)),
        ] {
            assert_eq!(Day::of(days), Day { year, month, day });
        }
        for days in (-2_500_000..110_000_000).step_by(997) {
            assert_eq!(Day::of(days).days(), days);
        }
    }
}
