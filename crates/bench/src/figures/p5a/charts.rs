//! Which charts the lines give: for each link the total time of both sides, by the files of a tree.

use crate::figures::cases::{series, text, texts, with};
use crate::figures::chart::{Axis, Chart};
use crate::figures::units::Unit;
use crate::migration::TOTAL;
use crate::{Line, Metric};

/// Everything that these lines show.
pub(in crate::figures) fn charts(lines: &[Line]) -> Vec<Chart> {
    let total: Vec<&Line> = lines.iter().filter(|line| line.bench == TOTAL).collect();
    let chart = |link: String| {
        let own: Vec<&Line> = total.iter().filter(|line| text(line, "link") == link).copied().collect();
        Chart {
            name: format!("p5a-total-{link}"),
            title: format!("Until all is here, {link}"),
            x: Axis { label: "files of the tree", unit: Unit::Count },
            y: Axis { label: "total time", unit: Unit::Time },
            steps: true,
            series: series(&with(&own, Metric::Elapsed), |line| text(line, "side"), "files"),
        }
    };
    texts(total.iter().copied(), "link").into_iter().map(chart).collect()
}
