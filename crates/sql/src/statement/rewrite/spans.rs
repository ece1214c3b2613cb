//! Intervals in words that DataFusion reads: `1 day 02:03:04` is `1 day 2 hours 3 minutes 4 seconds`, and `1-2` a year and two
//! months. Weeks with a fraction are days: `1.5 weeks` is `10.5 days`.

use std::borrow::Cow;

use datafusion::sql::sqlparser::ast::{DataType, Expr, Interval, UnaryOperator, Value};

pub(super) fn spell_out(expression: &mut Expr) {
    // DataFusion would put the minus before the text, where it is one of the first number alone.
    if let Expr::UnaryOp { op: UnaryOperator::Minus, expr } = expression
        && matches!(expr.as_ref(), Expr::Interval(_))
    {
        let interval = std::mem::replace(expr.as_mut(), Expr::value(Value::Null));
        **expr = Expr::Nested(Box::new(interval));
    }
    let text = match expression {
        Expr::Interval(Interval { value, leading_field: None, last_field: None, .. }) => value.as_mut(),
        Expr::Cast { expr, data_type: DataType::Interval { .. }, .. } => expr.as_mut(),
        _ => return,
    };
    if let Expr::Value(value) = text
        && let Value::SingleQuotedString(text) = &mut value.value
        && let Some(words) = words(text)
    {
        *text = words;
    }
}

/// As many days, of a number of weeks with a fraction.
fn days(weeks: &str) -> Option<String> {
    let unsigned = weeks.trim_start_matches(['-', '+']);
    let (whole, fraction) = unsigned.split_once('.')?;
    let sign = if weeks.starts_with('-') { "-" } else { "" };
    // Digits behind the point beyond these are less than a microsecond.
    let digits = fraction.len();
    let number = |text: &str| if text.is_empty() { Ok(0) } else { text.parse::<u64>() };
    if weeks.len() - unsigned.len() > 1 || digits > 12 || whole.len() > 6 {
        return None;
    }
    let unit = 10_u64.pow(u32::try_from(digits).ok()?);
    let days = (number(whole).ok()? * unit + number(fraction).ok()?) * 7;
    Some(format!("{sign}{}.{:0digits$}", days / unit, days % unit))
}

/// The same interval with a unit behind each number, if there is any without, and without fractions of weeks.
fn words(text: &str) -> Option<String> {
    let mut parts: Vec<Cow<'_, str>> = text.split_whitespace().map(Cow::Borrowed).collect();
    let mut is_changed = false;
    for at in 1..parts.len() {
        if matches!(parts[at].to_ascii_lowercase().as_str(), "week" | "weeks" | "w")
            && let Some(days) = days(&parts[at - 1])
        {
            (parts[at - 1], parts[at]) = (Cow::Owned(days), Cow::Borrowed("days"));
            is_changed = true;
        }
    }
    let is_special = |part: &str| part.contains(':') || part.trim_start_matches(['-', '+']).contains('-');
    if !parts.iter().any(|part| is_special(part)) {
        return is_changed.then(|| parts.join(" "));
    }
    let mut words = Vec::with_capacity(parts.len() + 5);
    for (at, part) in parts.iter().enumerate() {
        let part: &str = part;
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let unsigned = part.trim_start_matches(['-', '+']);
        if part.len() - unsigned.len() > 1 {
            return None;
        }
        let sign = if part.starts_with('-') { "-" } else { "" };
        if part.contains(':') {
            let mut fields = unsigned.split(':');
            let (hours, minutes, seconds) = (fields.next()?, fields.next()?, fields.next().unwrap_or("0"));
            let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, "0"));
            let fits = |field: &str| field.parse::<u8>().is_ok_and(|field| field < 60);
            if fields.next().is_some()
                || ![hours, minutes, whole, fraction].iter().all(|field| is_number(field))
                || !fits(minutes)
                || !fits(whole)
            {
                return None;
            }
            words.push(format!("{sign}{hours} hours {sign}{minutes} minutes {sign}{seconds} seconds"));
        } else if let Some((years, months)) = unsigned.split_once('-') {
            if !is_number(years) || !is_number(months) || months.parse::<u8>().map_or(true, |months| months > 11) {
                return None;
            }
            words.push(format!("{sign}{years} years {sign}{months} months"));
        } else if is_number(unsigned) && parts.get(at + 1).is_some_and(|next| next.contains(':')) {
            words.push(format!("{part} days"));
        } else {
            words.push(part.to_owned());
        }
    }
    Some(words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn each_number_of_an_interval_gets_its_unit() {
        for (text, expected) in [
            ("1 day 02:03:04.5", Some("1 day 02 hours 03 minutes 04.5 seconds")),
            ("1 02:03", Some("1 days 02 hours 03 minutes 0 seconds")),
            ("-02:03:04", Some("-02 hours -03 minutes -04 seconds")),
            ("1-2", Some("1 years 2 months")),
            ("-1-2", Some("-1 years -2 months")),
            ("1 month -2 days", None),
            ("1.5 weeks", Some("10.5 days")),
            ("1 month -.25 week 1:00", Some("1 month -1.75 days 1 hours 00 minutes 0 seconds")),
            ("2 weeks", None),
            ("1.5.5 weeks", None),
            ("1:2:3:4", None),
            ("1:60", None),
            ("--1:02", None),
        ] {
            assert_eq!(words(text).as_deref(), expected, "{text}");
        }
    }
}
