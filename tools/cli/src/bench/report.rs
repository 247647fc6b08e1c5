//! All tables of a campaign, from the columns that were measured.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use super::result::{Column, Head, Row};

/// A report.
#[derive(Serialize)]
pub struct Report {
    /// The day, as YYYY-MM-DD.
    pub date: String,
    /// The checkout's commit.
    pub commit: String,
    pub tables: Vec<Table>,
}

/// A table: kernels side by side.
#[derive(Serialize)]
pub struct Table {
    pub head: Head,
    /// The names and windows of the rows, in order.
    pub rows: Vec<(String, String)>,
    pub columns: Vec<Column>,
}

impl Report {
    /// Sorts columns into tables, in the order in which they come.
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
            date: today(),
            commit: commit(),
            tables,
        }
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

    /// Adds a column; one of the same label is replaced.
    fn add(&mut self, column: Column) {
        for row in &column.rows {
            if !self.rows.iter().any(|(name, _)| *name == row.name) {
                self.rows.push((row.name.clone(), row.window.clone()));
            }
        }
        self.columns.retain(|known| known.label != column.label);
        self.columns.push(column);
    }

    /// The figure of a row in a column, if it is there.
    pub fn cell<'a>(&self, name: &str, column: &'a Column) -> Option<&'a Row> {
        column.rows.iter().find(|row| row.name == name)
    }

    /// The value of a row in a column, if it was measured.
    pub fn value(&self, name: &str, column: &Column) -> Option<f64> {
        self.cell(name, column)?.value
    }

    /// How many times as much a column takes as the first one.
    pub fn ratio(&self, name: &str, column: &Column) -> Option<f64> {
        let first = self.value(name, self.columns.first()?)?;
        (first > 0.0).then_some(self.value(name, column)? / first)
    }

    /// The geometric mean of a column's ratios, over the rows that it and the first column both have.
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

/// A figure with as many digits as it deserves.
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
        _ if value >= 100.0 => whole(value),
        _ if value == value.trunc() => format!("{value}"),
        _ if value >= 1.0 => format!("{value:.1}"),
        _ if value < 0.0005 => "<0.001".into(),
        _ => format!("{value:.3}"),
    }
}

/// The day in UTC. Civil date from days: Howard Hinnant, "chrono-compatible low-level date algorithms".
fn today() -> String {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs());
    let days = (seconds / 86_400) as i64 + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let (day, month) = (
        day_of_year - (153 * shifted + 2) / 5 + 1,
        shifted + if shifted < 10 { 3 } else { -9 },
    );
    format!(
        "{:04}-{month:02}-{day:02}",
        year_of_era + era * 400 + i64::from(month <= 2)
    )
}

/// The commit of the checkout; empty where there is none.
fn commit() -> String {
    let output = Command::new("git")
        .args(["describe", "--always", "--dirty"])
        .output();
    output.map_or(String::new(), |output| {
        String::from_utf8_lossy(&output.stdout).trim().into()
    })
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
            detail: false,
        };
        let rows = values
            .iter()
            .map(|(name, value)| Row::new(*name, "", *value))
            .collect();
        Column {
            head,
            label: label.into(),
            kernel: String::new(),
            commands: Vec::new(),
            failure: None,
            rows,
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
