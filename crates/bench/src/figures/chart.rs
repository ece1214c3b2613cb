//! A chart: series of points over one axis of steps or of time, drawn as SVG.
//!
//! The picture brings its own paper, so that it can be read on any page; where the reader prefers dark pages, a style in it
//! exchanges paper and ink. Letters are the reader's own, no fonts are needed to draw.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint};
use plotters::prelude::*;

use super::units::Unit;
use crate::{Error, Result};

const SIZE: (u32, u32) = (880, 440);
/// Pixels of the column that names the series.
const LEGEND: u32 = 240;
const PAPER: RGBColor = RGBColor(255, 255, 255);
const INK: RGBColor = RGBColor(31, 35, 40);
const GRID: RGBColor = RGBColor(216, 222, 228);

/// Told apart by people who see colours differently, and on both papers (after Okabe and Ito).
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(140, 100, 60),
    RGBColor(128, 128, 128),
];

/// For readers who prefer dark pages: what is paper becomes ink, and the other way round.
const DARK: &str = "<style>@media (prefers-color-scheme: dark) {\
    [fill=\"#FFFFFF\"] { fill: #0D1117 } [fill=\"#1F2328\"] { fill: #E6EDF3 } \
    [stroke=\"#1F2328\"] { stroke: #9198A1 } [stroke=\"#D8DEE4\"] { stroke: #30363D } }</style>\n";

/// What drawing gives.
type Drawn = std::result::Result<(), DrawingAreaErrorKind<std::io::Error>>;

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn text() -> TextStyle<'static> {
    ("sans-serif", 16).into_font().color(&INK)
}

/// What one axis shows.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) label: &'static str,
    pub(super) unit: Unit,
}

/// One value with its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Points that belong together.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) name: String,
    /// In the order of their x.
    pub(super) points: Vec<Point>,
    /// Its colour; series that belong together share one.
    pub(super) colour: usize,
    pub(super) dashed: bool,
}

impl Series {
    fn colour(&self) -> RGBColor {
        COLOURS[self.colour % COLOURS.len()]
    }
}

/// A chart.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    /// Of its file, without the ending.
    pub(super) name: String,
    pub(super) title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    /// Each different x is a step of its own, equally far from the next; else they are measures.
    pub(super) steps: bool,
    pub(super) series: Vec<Series>,
}

impl Chart {
    /// The picture.
    pub(super) fn svg(&self) -> Result<String> {
        let mut svg = String::new();
        let failed = |error: DrawingAreaErrorKind<std::io::Error>| Error::Io {
            path: PathBuf::from(&self.name),
            operation: "drawing",
            source: std::io::Error::other(error.to_string()),
        };
        {
            let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            self.draw(&root).map_err(failed)?;
            root.present().map_err(failed)?;
        }
        let Some(end) = svg.find(">\n").filter(|_| svg.starts_with("<svg")) else { return Ok(svg) };
        svg.insert_str(end + 2, DARK);
        Ok(svg)
    }

    fn draw(&self, root: &Area<'_>) -> Drawn {
        root.fill(&PAPER)?;
        let (left, right) = root.split_horizontally(SIZE.0 - LEGEND);
        self.draw_points(&left)?;
        self.draw_legend(&right)
    }

    fn draw_points(&self, area: &Area<'_>) -> Drawn {
        let (across, up) = (Across::of(self), Ticks::up_to(self.highest(), self.y.unit));
        let x_range = Span { range: across.from..across.to, ticks: across.ticks.clone() };
        let y_range = Span { range: 0.0..up.top, ticks: up.at.clone() };
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 20).into_font().color(&INK))
            .margin(12)
            .x_label_area_size(50)
            .y_label_area_size(96)
            .build_cartesian_2d(x_range, y_range)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(INK)
            .label_style(text())
            .axis_desc_style(text())
            .x_desc(self.x.label)
            .y_desc(self.y.label)
            .x_label_formatter(&|x| across.label(*x, self.x.unit))
            .y_label_formatter(&|y| self.y.unit.show(*y))
            .draw()?;
        for series in &self.series {
            let colour = series.colour();
            let at = |point: &Point, y: f64| (across.place(point.x), y);
            let line: Vec<(f64, f64)> = series.points.iter().map(|point| at(point, point.y)).collect();
            let spreads = series.points.iter().filter(|point| point.low < point.high);
            let spreads = spreads.map(|point| PathElement::new([at(point, point.low), at(point, point.high)], colour));
            chart.draw_series(spreads)?;
            if self.steps {
                chart.draw_series(line.iter().map(|at| Circle::new(*at, 3, colour.filled())))?;
            }
            let stroke = colour.stroke_width(2);
            if series.dashed {
                chart.draw_series(DashedLineSeries::new(line, 6, 4, stroke))?;
            } else {
                chart.draw_series(LineSeries::new(line, stroke))?;
            }
        }
        Ok(())
    }

    /// Beside the points, where it hides none of them.
    fn draw_legend(&self, area: &Area<'_>) -> Drawn {
        for (place, series) in self.series.iter().enumerate() {
            let y = 60 + 24 * place as i32;
            let style = series.colour().stroke_width(2);
            let parts: &[(i32, i32)] = if series.dashed { &[(4, 12), (16, 24)] } else { &[(4, 24)] };
            for (from, to) in parts {
                area.draw(&PathElement::new([(*from, y), (*to, y)], style))?;
            }
            area.draw(&Text::new(series.name.as_str(), (30, y - 8), text()))?;
        }
        Ok(())
    }

    fn highest(&self) -> f64 {
        self.series.iter().flat_map(|series| &series.points).map(|point| point.high.max(point.y)).fold(0.0, f64::max)
    }
}

/// The axis across.
struct Across {
    /// The different x, where they are steps.
    steps: Option<Vec<f64>>,
    from: f64,
    to: f64,
    ticks: Vec<f64>,
}

impl Across {
    fn of(chart: &Chart) -> Self {
        let all = || chart.series.iter().flat_map(|series| &series.points).map(|point| point.x);
        if chart.steps {
            // All are finite and not negative: their bits have their order.
            let steps: BTreeSet<u64> = all().map(f64::to_bits).collect();
            let steps: Vec<f64> = steps.into_iter().map(f64::from_bits).collect();
            let ticks: Vec<f64> = (0..steps.len()).map(|step| step as f64).collect();
            return Self { from: -0.3, to: steps.len().max(1) as f64 - 0.7, steps: Some(steps), ticks };
        }
        let ticks = Ticks::up_to(all().fold(0.0, f64::max), chart.x.unit);
        Self { steps: None, from: 0.0, to: ticks.top, ticks: ticks.at }
    }

    fn place(&self, x: f64) -> f64 {
        self.steps
            .as_ref()
            .and_then(|steps| steps.iter().position(|step| step.to_bits() == x.to_bits()))
            .map_or(x, |place| place as f64)
    }

    fn label(&self, place: f64, unit: Unit) -> String {
        let value = match &self.steps {
            Some(steps) => steps.get(place.round().max(0.0) as usize).copied(),
            None => Some(place),
        };
        value.map_or_else(String::new, |value| unit.show(value))
    }
}

/// A part of an axis, with the places where it has its labels.
#[derive(Clone)]
struct Span {
    range: Range<f64>,
    ticks: Vec<f64>,
}

impl Ranged for Span {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let share = (value - self.range.start) / (self.range.end - self.range.start);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// Round numbers from 0 up.
struct Ticks {
    at: Vec<f64>,
    top: f64,
}

impl Ticks {
    /// Four to eight of them, the last one not below `highest`.
    fn up_to(highest: f64, unit: Unit) -> Self {
        // A share of no more than the whole has the whole as its top.
        let highest = if unit == Unit::Share && highest <= 1.0 { 1.0 } else { highest };
        if !(highest > 0.0 && highest.is_finite()) {
            return Self { at: vec![0.0, 1.0], top: 1.0 };
        }
        let power = 10_f64.powf((highest / 5.0).log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|by| by * power).find(|step| highest / step <= 7.0);
        let step = step.unwrap_or(10.0 * power);
        let count = (highest / step - 1e-9).ceil() as usize;
        Self { at: (0..=count).map(|tick| tick as f64 * step).collect(), top: count as f64 * step }
    }
}
