//! Where figures come from: the day, and the checkout's commit.

use std::fmt;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::project::Project;

/// Where figures come from.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Origin {
    /// The day, as YYYY-MM-DD.
    pub date: String,
    /// The checkout's commit; empty if there is none.
    pub commit: String,
}

impl Origin {
    /// The origin of the present measurements.
    pub fn now(project: &Project) -> Self {
        let output = Command::new("git")
            .current_dir(&project.root)
            .args(["describe", "--always", "--dirty"])
            .output();
        let commit = output.map_or(String::new(), |output| {
            String::from_utf8_lossy(&output.stdout).trim().into()
        });
        Self {
            date: today(),
            commit,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "on {} at {}", self.date, self.commit)
    }
}

/// The day in UTC, as YYYY-MM-DD. Civil date from days: Howard Hinnant, "chrono-compatible
/// low-level date algorithms".
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
