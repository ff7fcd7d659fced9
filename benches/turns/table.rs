//! Medians, and a table of them.

/// The direction in which figures are better.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Better {
    Less,
    More,
}

/// One figure of both clients.
pub(crate) struct Row {
    pub(crate) figure: String,
    better: Better,
    digits: usize,
    floor: Vec<f64>,
    ours: Vec<f64>,
}

impl Row {
    pub(crate) fn new(
        figure: &str,
        better: Better,
        digits: usize,
        [floor, ours]: [Vec<f64>; 2],
    ) -> Self {
        let sorted = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            if better == Better::More {
                values.reverse();
            }
            values
        };
        Row { figure: figure.to_owned(), better, digits, floor: sorted(floor), ours: sorted(ours) }
    }

    /// Returns the ratio of loopwright to the floor.
    pub(crate) fn ratio(&self) -> f64 {
        self.times(median(&self.floor), median(&self.ours))
    }

    fn times(&self, floor: f64, ours: f64) -> f64 {
        match self.better {
            Better::Less => ours / floor,
            Better::More => floor / ours,
        }
    }
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

/// Prints the medians of both and their ratio, and the same for the best runs, which noise affects
/// least.
pub(crate) fn print(rows: &[Row]) {
    println!("| median (best) of the runs | floor | loopwright | ratio | ratio of the best |");
    println!("|---|---:|---:|---:|---:|");
    for row in rows {
        let cell = |values: &[f64]| {
            format!("{:.*} ({:.*})", row.digits, median(values), row.digits, values[0])
        };
        let best = row.times(row.floor[0], row.ours[0]);
        let (floor, ours, ratio) = (cell(&row.floor), cell(&row.ours), row.ratio());
        println!("| {} | {floor} | {ours} | {ratio:.2} | {best:.2} |", row.figure);
    }
}
