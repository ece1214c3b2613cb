//! Rows of cells for a person to read.

/// A line for each row, with columns as wide as their widest cell. The columns of these numbers hold words, and stand on the
/// left; all others hold numbers, and stand on the right.
pub fn columns<const N: usize>(rows: &[[String; N]], words: &[usize]) -> String {
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        let cell = |(at, (cell, &width)): (usize, (&String, &usize))| {
            if words.contains(&at) { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        };
        let cells: Vec<String> = row.iter().zip(&widths).enumerate().map(cell).collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_on_the_left_and_numbers_on_the_right() {
        let rows = [["of", "µs", ""], ["a", "1.5", "2"]].map(|row| row.map(str::to_owned));
        assert_eq!(columns(&rows, &[0]), "of   µs\na   1.5  2\n");
        assert_eq!(columns::<2>(&[], &[]), "");
    }
}
