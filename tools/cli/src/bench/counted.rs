//! The plugin, and its counts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::project::Project;
use crate::session::Session;
use crate::toolchain;

/// Builds the plugin: the file.
pub fn plugin(project: &Project) -> Result<PathBuf> {
    let mut cargo = project.cargo(&["build", "--quiet", "--release", "--package", "counter"]);
    let built = project.target.join("release/libcounter.so");
    toolchain::build(&mut cargo, "building tools/counter", built)
}

/// The number of attempts to wait for a machine's end, of some seconds each: the plugin writes its
/// figures after the channel is closed, which takes long on a busy host.
const PATIENCE: usize = 24;

/// Waits for the machine's end, after which the plugin's file is complete.
pub fn await_end(session: &mut Session) -> Result<()> {
    for _ in 0..PATIENCE {
        if session.finish()?.is_some() {
            break;
        }
    }
    Ok(())
}

/// One line of the plugin's output.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Phase {
        phase: Tag,
        counts: BTreeMap<String, u64>,
    },
    Touched {
        phase: u32,
        line: String,
        #[serde(flatten)]
        touched: Touched,
    },
    Executed(Executed),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Tag {
    Number(u32),
    /// `boot`: before the first marker.
    Name(serde::de::IgnoredAny),
}

/// The use of a cache line in a phase.
#[derive(Deserialize)]
pub struct Touched {
    pub loads: u64,
    pub stores: u64,
    /// The number of stays in the kernel in which it was accessed.
    pub stays: u64,
    /// One of the accesses, preferably a store: its target, and the instruction's address.
    pub address: String,
    pub instruction: String,
}

/// One instruction of a trace.
#[derive(Deserialize, Clone, Debug)]
pub struct Executed {
    pub pc: String,
    pub word: String,
    pub ring: Ring,
    pub text: String,
}

/// The privilege of an instruction, as the plugin names it.
#[derive(Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Ring {
    User,
    Kernel,
    Firmware,
}

/// All counts of one run.
#[derive(Default)]
pub struct Counted {
    boot: BTreeMap<String, u64>,
    phases: BTreeMap<u32, BTreeMap<String, u64>>,
    lines: BTreeMap<u32, BTreeMap<String, Touched>>,
    pub trace: Vec<Executed>,
}

impl Counted {
    /// Reads the plugin's file; a machine that was killed has not written one.
    pub fn read(file: &Path) -> Result<Self> {
        let mut counted = Self::default();
        let Ok(text) = std::fs::read_to_string(file) else {
            return Ok(counted);
        };
        for line in text.lines() {
            match serde_json::from_str(line).with_context(|| line.to_owned())? {
                Line::Phase {
                    phase: Tag::Number(tag),
                    counts,
                } => {
                    counted.phases.insert(tag, counts);
                }
                Line::Phase {
                    phase: Tag::Name(_),
                    counts,
                } => counted.boot = counts,
                Line::Touched {
                    phase,
                    line,
                    touched,
                } => {
                    counted
                        .lines
                        .entry(phase)
                        .or_default()
                        .insert(line, touched);
                }
                Line::Executed(instruction) => counted.trace.push(instruction),
            }
        }
        Ok(counted)
    }

    /// The sum of some kinds before the first marker; kinds have the plugin's names, with the ring.
    pub fn boot(&self, kinds: &[&str]) -> u64 {
        sum(&self.boot, kinds)
    }

    /// The tags of all phases.
    pub fn tags(&self) -> impl Iterator<Item = u32> {
        self.phases.keys().copied()
    }

    /// The sum of some kinds in a phase.
    pub fn phase(&self, tag: u32, kinds: &[&str]) -> u64 {
        self.phases.get(&tag).map_or(0, |counts| sum(counts, kinds))
    }

    /// The cache lines that each operation shares between CPUs. In the given phases it was done on
    /// different CPUs in turn; shared are the lines that were written in one of these phases, and
    /// accessed in each of them by at least one in ten operations.
    pub fn shared(&self, phases: &[u32], operations: u64) -> Option<Vec<(&str, &Touched)>> {
        let phases: Option<Vec<_>> = phases.iter().map(|tag| self.lines.get(tag)).collect();
        let phases = phases?;
        let shared = phases.first()?.keys().filter_map(|line| {
            let uses: Option<Vec<_>> = phases.iter().map(|phase| phase.get(line)).collect();
            let uses = uses?;
            let often = uses.iter().all(|touched| 10 * touched.stays >= operations);
            let written = uses.iter().find(|touched| touched.stores > 0)?;
            often.then_some((line.as_str(), *written))
        });
        Some(shared.collect())
    }
}

fn sum(counts: &BTreeMap<String, u64>, kinds: &[&str]) -> u64 {
    kinds.iter().filter_map(|kind| counts.get(*kind)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_plugin_are_understood() {
        let text = r#"{"phase":"boot","entered":0,"counts":{"tlbi.kernel":3}}
{"phase":1,"entered":2,"counts":{"eret.kernel":20,"svc.user":20}}
{"phase":1,"line":"0x40","loads":1,"stores":1,"stays":10,"address":"0x40","instruction":"0x0"}
{"phase":1,"line":"0x80","loads":1,"stores":0,"stays":10,"address":"0x80","instruction":"0x0"}
{"phase":1,"line":"0xc0","loads":1,"stores":1,"stays":1,"address":"0xc0","instruction":"0x0"}
{"phase":65,"line":"0x40","loads":1,"stores":0,"stays":10,"address":"0x40","instruction":"0x0"}
{"phase":65,"line":"0x80","loads":1,"stores":0,"stays":10,"address":"0x80","instruction":"0x0"}
{"phase":65,"line":"0xc0","loads":1,"stores":0,"stays":10,"address":"0xc0","instruction":"0x0"}
{"pc":"0x10","word":"0xd4000001","ring":"user","text":"svc #0"}
"#;
        let file = std::env::temp_dir().join(format!("stile-counted-{}", std::process::id()));
        std::fs::write(&file, text).unwrap();
        let counted = Counted::read(&file).unwrap();
        std::fs::remove_file(file).unwrap();
        assert_eq!(counted.boot(&["tlbi.kernel"]), 3);
        assert_eq!(counted.phase(1, &["eret.kernel", "svc.user"]), 40);
        // Only the first line is written by one CPU and accessed often by both.
        assert_eq!(counted.shared(&[1, 65], 20).unwrap().len(), 1);
        assert!(counted.shared(&[1, 66], 20).is_none());
        assert_eq!(counted.trace[0].text, "svc #0");
        assert_eq!(counted.trace[0].ring, Ring::User);
    }
}
