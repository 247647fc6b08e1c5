//! `stile bench`: the same work on any two kernels, side by side, counted.
//!
//! A campaign is a list of steps: one suite on one kernel of one architecture. A step's result is a
//! file in the output folder, with a key over all of its inputs. A step whose file exists is not
//! run again, so an interrupted campaign resumes, and a campaign that was split over machines is
//! merged by putting the files together. The report is made from these files alone.

mod affinity;
mod affinity_kernel;
mod boot;
mod campaign;
pub mod checks;
mod compare;
pub mod counted;
mod crossings;
mod crossings_boot;
mod crossings_output;
mod entry_build;
mod entry_compat;
mod fence_programs;
mod guests;
mod html;
mod idreg_threads;
mod inspect;
mod inspect_entry;
mod inspect_lines;
mod interrupt;
pub mod jobs;
pub mod known;
mod lmbench;
mod markdown;
mod options;
mod origin;
pub mod page;
mod path;
mod patience;
mod plot;
mod reach;
mod report;
mod result;
mod scale;
mod sizes;
mod slowed;
mod step;
pub mod subject;
mod systems;
mod text;
mod unequal;

use crate::project::Project;

pub use campaign::bench;
pub use compare::{CompareOptions, compare};
pub use inspect::{InspectOptions, inspect};
pub use options::BenchOptions;

/// The settings of all steps.
pub struct Bench<'a> {
    /// The checkout.
    pub project: &'a Project,
    /// Whether to measure less of everything.
    pub quick: bool,
    /// Whether to complete runs that are otherwise ended after some seconds.
    pub full: bool,
    /// The CPU model, unless it is the architecture's default.
    pub cpu: Option<&'a str>,
    /// The rows of `sizes` to measure; all if empty.
    pub rows: &'a [String],
}
