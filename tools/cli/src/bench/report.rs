//! All tables of a campaign, made from the columns that were measured.

use serde::Serialize;

use super::origin::Origin;
use super::result::{Column, Head, Mark, Results, Row};
use super::unequal;

/// A report.
#[derive(Serialize)]
pub struct Report {
    /// The origins of the figures: one, unless some were kept from an earlier campaign or come from
    /// elsewhere.
    pub origins: Vec<Origin>,
    /// Differences between kernels.
    pub not_equal: &'static str,
    pub tables: Vec<Table>,
}

/// The difference above which a higher exponent is marked: below it, the cost does not grow, and
/// the other kernel's is larger.
const STEEPER: f64 = 0.1;

/// A table: kernels side by side.
#[derive(Serialize)]
pub struct Table {
    pub head: Head,
    /// The names and windows of the rows, in order.
    pub rows: Vec<(String, String)>,
    pub columns: Vec<Column>,
}

impl Report {
    /// The results of several steps, in order.
    pub fn of_results(results: Vec<Results>) -> Self {
        let mut origins: Vec<_> = results.iter().map(|step| step.origin.clone()).collect();
        origins.sort();
        origins.dedup();
        let columns = results.into_iter().flat_map(|step| step.columns).collect();
        Self {
            origins,
            ..Self::new(columns)
        }
    }

    /// Sorts columns into tables, in the order of their arrival.
    pub fn new(columns: Vec<Column>) -> Self {
        let mut tables: Vec<Table> = Vec::new();
        for column in columns {
            match tables
                .iter_mut()
                .find(|table| table.head.id == column.head.id)
            {
                Some(table) => table.add(column),
                None => {
                    let mut table = Table::new(column.head.clone());
                    table.add(column);
                    tables.push(table);
                }
            }
        }
        Self {
            origins: Vec::new(),
            not_equal: unequal::ALWAYS,
            tables,
        }
    }

    /// The origins of the figures, as a sentence.
    pub fn measured(&self) -> String {
        let origins: Vec<_> = self.origins.iter().map(Origin::to_string).collect();
        let kept = match origins.len() {
            0 | 1 => "",
            _ => ". What was measured already is kept where all that went into it is the same",
        };
        format!("Measured {} by stile bench{kept}.", origins.join(", "))
    }
}

impl Table {
    fn new(head: Head) -> Self {
        Self {
            head,
            rows: Vec::new(),
            columns: Vec::new(),
        }
    }

    /// Adds a column; replaces one with the same label.
    fn add(&mut self, column: Column) {
        for row in &column.rows {
            if !self.rows.iter().any(|(name, _)| *name == row.name) {
                self.rows.push((row.name.clone(), row.window.clone()));
            }
        }
        self.columns.retain(|known| known.label != column.label);
        self.columns.push(column);
    }

    /// The figure of a row in a column, if it exists.
    pub fn cell<'a>(&self, name: &str, column: &'a Column) -> Option<&'a Row> {
        column.rows.iter().find(|row| row.name == name)
    }

    /// The value of a row in a column, if it was measured.
    pub fn value(&self, name: &str, column: &Column) -> Option<f64> {
        self.cell(name, column)?.value
    }

    /// The ratio of a column's value to that of the first column.
    pub fn ratio(&self, name: &str, column: &Column) -> Option<f64> {
        let first = self.value(name, self.columns.first()?)?;
        (first > 0.0).then_some(self.value(name, column)? / first)
    }

    /// Whether the row is marked, according to the table's head.
    pub fn is_marked(&self, name: &str) -> bool {
        let Some((first, others)) = self.columns.split_first() else {
            return false;
        };
        let Some(own) = self.value(name, first) else {
            return false;
        };
        let lean = |column: &&Column| column.label.ends_with(" lean");
        let any_lean = others.iter().any(|column| lean(&column));
        let mut theirs = others
            .iter()
            .filter(|column| !any_lean || lean(column))
            .filter_map(|column| self.value(name, column));
        match self.head.mark {
            Mark::None => false,
            Mark::AboveHalf => theirs.any(|value| own > value / 2.0),
            Mark::Steeper => theirs.any(|value| own > value + STEEPER),
        }
    }

    /// A row's name with its mark, if it has one.
    pub fn marked_name(&self, name: &str) -> String {
        let mark = if self.is_marked(name) { "! " } else { "" };
        format!("{mark}{name}")
    }

    /// The geometric mean of a column's ratios, over the rows that both it and the first column
    /// have.
    pub fn mean(&self, column: &Column) -> Option<f64> {
        let ratios: Vec<f64> = self
            .rows
            .iter()
            .filter_map(|(name, _)| self.ratio(name, column))
            .filter(|ratio| *ratio > 0.0)
            .map(f64::ln)
            .collect();
        (!ratios.is_empty()).then(|| (ratios.iter().sum::<f64>() / ratios.len() as f64).exp())
    }
}

/// A figure with a suitable number of digits.
pub fn figure(value: f64) -> String {
    let whole = |value: f64| {
        let digits = format!("{value:.0}");
        let groups: Vec<_> = digits
            .as_bytes()
            .rchunks(3)
            .rev()
            .map(String::from_utf8_lossy)
            .collect();
        groups.join(",")
    };
    match value {
        _ if value < 0.0 => format!("-{}", figure(-value)),
        _ if value >= 100.0 => whole(value),
        _ if value == value.trunc() => format!("{value}"),
        _ if value >= 1.0 => format!("{value:.1}"),
        _ if value < 0.0005 => "<0.001".into(),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(label: &str, values: &[(&str, f64)]) -> Column {
        let head = Head {
            id: "t".into(),
            title: String::new(),
            unit: String::new(),
            note: String::new(),
            ratios: true,
            mean: true,
            ..Head::default()
        };
        let rows = values
            .iter()
            .map(|(name, value)| Row::new(*name, "", *value))
            .collect();
        Column {
            rows,
            ..Column::new(head, label)
        }
    }

    #[test]
    fn columns_find_their_table_and_ratios_are_to_the_first() {
        let first = column("a", &[("null", 100.0), ("fault", 1000.0)]);
        let second = column("b", &[("null", 400.0), ("fork", 5.0), ("fault", 1000.0)]);
        let report = Report::new(vec![first, second]);
        let table = &report.tables[0];
        assert_eq!(report.tables.len(), 1);
        assert_eq!(
            table
                .rows
                .iter()
                .map(|(name, _)| name.as_str())
                .collect::<Vec<_>>(),
            ["null", "fault", "fork"]
        );
        assert_eq!(table.ratio("null", &table.columns[1]), Some(4.0));
        assert_eq!(table.ratio("fork", &table.columns[1]), None);
        assert_eq!(table.mean(&table.columns[1]), Some(2.0));
    }

    #[test]
    fn a_column_measured_again_replaces_the_old() {
        let report = Report::new(vec![
            column("a", &[("null", 1.0)]),
            column("a", &[("null", 2.0)]),
        ]);
        assert_eq!(report.tables[0].columns.len(), 1);
        assert_eq!(
            report.tables[0].value("null", &report.tables[0].columns[0]),
            Some(2.0)
        );
    }

    #[test]
    fn rows_are_marked_beside_lean_kernels() {
        let rows: &[(&str, f64)] = &[("a", 100.0), ("b", 49.0)];
        let mut report = Report::new(vec![
            column("stile", rows),
            column("linux", &[("a", 100.0), ("b", 90.0)]),
            column("linux lean", &[("a", 199.0), ("b", 99.0)]),
        ]);
        let marked = |report: &Report| ["a", "b"].map(|row| report.tables[0].is_marked(row));
        assert_eq!(marked(&report), [false, false]);
        report.tables[0].head.mark = Mark::AboveHalf;
        assert_eq!(marked(&report), [true, false]);
        report.tables[0].head.mark = Mark::Steeper;
        assert_eq!(marked(&report), [false, false]);
        report.tables[0].columns[2].rows[1].value = Some(48.0);
        assert_eq!(marked(&report), [false, true]);
    }

    #[test]
    fn figures() {
        for (value, text) in [
            (302.0, "302"),
            (310_810.4, "310,810"),
            (46.25, "46.2"),
            (0.0, "0"),
            (0.0125, "0.013"),
            (0.0001, "<0.001"),
            (3.0, "3"),
        ] {
            assert_eq!(figure(value), text);
        }
    }
}
