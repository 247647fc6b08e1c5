//! Results: the figures of one kernel in one table, as they are stored.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::origin::Origin;

/// The results of one step.
#[derive(Serialize, Deserialize)]
pub struct Results {
    /// A key over all inputs; none if there is no result.
    pub key: Option<String>,
    pub origin: Origin,
    pub columns: Vec<Column>,
}

impl Results {
    /// The results in a file, if it contains any.
    pub fn read(file: &Path) -> Option<Self> {
        serde_json::from_str(&fs::read_to_string(file).ok()?).ok()
    }

    /// Writes them in one step, so that an interruption leaves no partial file.
    pub fn write(&self, file: &Path) -> Result<()> {
        let new = file.with_extension("new");
        fs::write(&new, serde_json::to_string_pretty(self)?)
            .and_then(|()| fs::rename(&new, file))
            .with_context(|| file.display().to_string())
    }
}

/// The subject of a table.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug, Default)]
pub struct Head {
    /// A short name, which identifies the table of a column.
    pub id: String,
    pub title: String,
    /// The unit of the figures.
    pub unit: String,
    /// Notes that a reader needs.
    pub note: String,
    /// Whether ratios to the first column are shown.
    pub ratios: bool,
    /// Whether the geometric mean of the ratios is shown, because the rows are of one kind.
    pub mean: bool,
    /// Whether the terminal does not show the table.
    pub detail: bool,
    /// Which rows are marked.
    #[serde(default)]
    pub mark: Mark,
}

/// Which rows of a table are marked, comparing the first column with lean kernels, or with all
/// others if there are none.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mark {
    #[default]
    None,
    /// Those in which the first column has more than half.
    AboveHalf,
    /// Those in which the first column's exponent is higher.
    Steeper,
}

/// One kernel in one table.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Column {
    pub head: Head,
    /// The kernel's name for readers.
    pub label: String,
    /// The kernel's banner, with its compiler if its image contains that; empty if unknown.
    pub kernel: String,
    /// The commands that produced the figures.
    pub commands: Vec<String>,
    /// Why figures are missing.
    pub failure: Option<Failure>,
    pub rows: Vec<Row>,
}

impl Column {
    /// A column without figures yet.
    pub fn new(head: Head, label: &str) -> Self {
        Self {
            head,
            label: label.into(),
            kernel: String::new(),
            commands: Vec::new(),
            failure: None,
            rows: Vec::new(),
        }
    }

    /// A column with the figures that `measure` adds to it, or with the reason if that fails.
    pub fn measured(
        head: Head,
        label: &str,
        measure: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Self {
        let mut column = Self::new(head, label);
        if let Err(error) = measure(&mut column) {
            column.failure = Some(Failure {
                reason: format!("not measured: {error:#}"),
                console: String::new(),
            });
        }
        column
    }
}

/// How a machine failed.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Failure {
    /// In a few words.
    pub reason: String,
    /// The last lines of its console.
    pub console: String,
}

/// One figure.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Row {
    pub name: String,
    /// The exact operation that was measured.
    pub window: String,
    /// The minimum of all batches, if there are several; none if it could not be measured.
    pub value: Option<f64>,
    pub median: Option<f64>,
    /// Why it could not be measured.
    pub remark: Option<String>,
}

impl Row {
    /// A row of a single figure.
    pub fn new(name: impl Into<String>, window: impl Into<String>, value: f64) -> Self {
        Self {
            name: name.into(),
            window: window.into(),
            value: Some(value),
            median: None,
            remark: None,
        }
    }
}
