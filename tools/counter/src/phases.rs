//! Counts, divided among the phases.

use std::collections::BTreeMap;
use std::fmt::Write;

/// One phase, summed over all times that it was entered.
#[derive(Default)]
struct Phase {
    entered: u64,
    counts: Vec<u64>,
}

/// All phases. Counters are only ever read as running totals.
#[derive(Default)]
pub struct Phases {
    /// The phase now; none before the first marker.
    tag: Option<u32>,
    last: Vec<u64>,
    phases: BTreeMap<Option<u32>, Phase>,
}

impl Phases {
    /// Ends the phase now, given the counters' running totals, and enters the next. Returns how
    /// often that was entered before.
    pub fn enter(&mut self, tag: u32, totals: Vec<u64>) -> u64 {
        self.close(totals);
        self.tag = Some(tag);
        let phase = self.phases.entry(self.tag).or_default();
        phase.entered += 1;
        phase.entered - 1
    }

    /// Gives the counts since the last marker to the present phase.
    pub fn close(&mut self, totals: Vec<u64>) {
        self.last.resize(totals.len(), 0);
        let phase = self.phases.entry(self.tag).or_default();
        phase.counts.resize(totals.len(), 0);
        for (count, (total, last)) in phase.counts.iter_mut().zip(totals.iter().zip(&self.last)) {
            *count += total - last;
        }
        self.last = totals;
    }

    /// One JSON object a line for each phase, with the counts that are not zero; `name` names a
    /// counter's place, and counters of the same name are summed.
    pub fn to_json(&self, name: impl Fn(usize) -> String) -> String {
        let mut text = String::new();
        for (tag, phase) in &self.phases {
            let mut counts = BTreeMap::<String, u64>::new();
            for (place, count) in phase
                .counts
                .iter()
                .enumerate()
                .filter(|(_, count)| **count > 0)
            {
                *counts.entry(name(place)).or_default() += count;
            }
            let tag = tag.map_or("\"boot\"".into(), |tag| tag.to_string());
            let counts: Vec<_> = counts
                .iter()
                .map(|(name, count)| format!("\"{name}\":{count}"))
                .collect();
            let (entered, counts) = (phase.entered, counts.join(","));
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{{\"phase\":{tag},\"entered\":{entered},\"counts\":{{{counts}}}}}"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_has_what_was_counted_in_it() {
        let mut phases = Phases::default();
        assert_eq!(phases.enter(5, vec![100, 0, 0]), 0);
        assert_eq!(phases.enter(0, vec![110, 1, 2]), 0);
        assert_eq!(phases.enter(5, vec![111, 1, 2]), 1);
        phases.close(vec![116, 1, 2]);
        let names = ["insn", "fence", "fence"];
        assert_eq!(
            phases.to_json(|place| names[place].into()),
            "{\"phase\":\"boot\",\"entered\":0,\"counts\":{\"insn\":100}}\n\
             {\"phase\":0,\"entered\":1,\"counts\":{\"insn\":1}}\n\
             {\"phase\":5,\"entered\":2,\"counts\":{\"fence\":3,\"insn\":15}}\n"
        );
    }
}
