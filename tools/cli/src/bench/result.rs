//! Results: the figures of one kernel in one table, as they are stored.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::origin::Origin;

/// The results of one step.
#[derive(Serialize, Deserialize)]
pub struct Results {
    /// A key over all that went into it; none where nothing came out.
    pub key: Option<String>,
    pub origin: Origin,
    pub columns: Vec<Column>,
}

impl Results {
    /// The results in a file, if it holds any.
    pub fn read(file: &Path) -> Option<Self> {
        serde_json::from_str(&fs::read_to_string(file).ok()?).ok()
    }

    /// Writes them in one go, so that an interruption leaves no half.
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
    /// A short name, by which columns find their table.
    pub id: String,
    pub title: String,
    /// The unit of the figures.
    pub unit: String,
    /// Notes that a reader needs.
    pub note: String,
    /// Whether ratios to the first column are shown.
    pub ratios: bool,
    /// Whether the geometric mean of the ratios is shown: the rows are then of one kind.
    pub mean: bool,
    /// Whether the table is left out in the terminal.
    pub detail: bool,
    /// Which rows are marked.
    #[serde(default)]
    pub mark: Mark,
}

/// Which rows of a table are marked, by the first column beside lean kernels, or all others where
/// none is.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mark {
    #[default]
    None,
    /// Those of which the first column has more than half.
    AboveHalf,
    /// Those of which the first column's exponent is higher.
    Steeper,
}

/// One kernel in one table.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Column {
    pub head: Head,
    /// The kernel as the reader knows it.
    pub label: String,
    /// The kernel's banner, with its compiler where its image has that; empty if there is none.
    pub kernel: String,
    /// The commands that gave the figures.
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

    /// A column with the figures that `measure` puts into it; where that fails, the reason.
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

/// How a machine came to a bad end.
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
    /// The least of all batches where there are several; none if it could not be measured.
    pub value: Option<f64>,
    pub median: Option<f64>,
    /// Why it could not be.
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
