//! Runs rows and prints their lines.

use crate::arguments::{Arguments, Options};
use crate::meter::{Meter, Outcome};
use crate::output;
use crate::rows::{ROWS, Row};
use crate::sys;

/// The settings for all rows.
pub struct Run<'a> {
    pub options: &'a Options<'a>,
    pub arguments: &'a Arguments,
    /// The counter's frequency in Hz.
    pub frequency: u64,
}

impl Run<'_> {
    /// Runs all requested rows; the first has the tag `first_tag`, and the others follow.
    pub fn rows(&self, first_tag: usize) {
        for (row, tag) in self.wanted().zip(first_tag..) {
            self.row(row, Meter::new(self, tag));
            sys::sleep_ms(self.options.pause_ms);
        }
    }

    fn wanted(&self) -> impl Iterator<Item = &'static Row> {
        ROWS.iter().filter(|row| self.options.wants(row.name))
    }

    /// Runs one row and prints its line.
    fn row(&self, row: &Row, mut meter: Meter) {
        let Row { name, window, .. } = row;
        match (row.run)(&mut meter) {
            Ok(()) => {
                let (least, median) = meter.least_and_median();
                output::line(format_args!("{name} {least} {median} ns {window}"));
                let (tag, operations) = meter.marked();
                output::line(format_args!("# tag {tag} {name} operations {operations}"));
            }
            Err(Outcome::Absent) => output::line(format_args!("{name} - - absent {window}")),
            Err(Outcome::Failed(error)) => {
                output::line(format_args!("{name} - - errno-{} {window}", error.0));
            }
        }
    }
}
