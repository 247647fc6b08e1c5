//! The longest stretches for which a kernel takes no interrupt: its instructions from one place
//! where it takes pending interrupts to the next. Stile runs with interrupts masked, and takes them
//! where it returns, waits, or polls for a pending one.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

/// From how many instructions on it is noted where a stretch spends them.
pub const LONG: u64 = 200_000;
/// How many addresses of a stretch are printed.
const TOLD: usize = 60;

/// Instructions in a row: for a whole stretch, the blocks with most of the instructions after
/// [`LONG`].
struct Stretch {
    instructions: u64,
    blocks: Vec<(u64, u64)>,
}

/// The longest stretches of each program, by where they ended.
#[derive(Default)]
pub struct Masked {
    /// How many programs have started.
    program: usize,
    /// The instructions of this stretch in each block.
    blocks: HashMap<u64, u64>,
    longest: BTreeMap<(usize, u64), Stretch>,
}

impl Masked {
    /// The next program starts.
    pub fn start(&mut self) {
        self.program += 1;
    }

    /// A block of a long stretch executes.
    pub fn note(&mut self, block: u64, instructions: u64) {
        *self.blocks.entry(block).or_default() += instructions;
    }

    /// A long stretch of so many instructions ends at `end`.
    pub fn end(&mut self, instructions: u64, end: u64) {
        let mut blocks: Vec<_> = self.blocks.drain().collect();
        let longest = self.longest.entry((self.program, end));
        let known = longest.or_insert(Stretch {
            instructions: 0,
            blocks: Vec::new(),
        });
        if instructions > known.instructions {
            blocks.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
            blocks.truncate(TOLD);
            *known = Stretch {
                instructions,
                blocks,
            };
        }
    }

    /// One JSON object a line.
    pub fn to_json(&self) -> String {
        let mut text = String::new();
        for ((program, end), stretch) in &self.longest {
            let blocks = stretch.blocks.iter();
            let blocks: Vec<_> = blocks
                .map(|(block, count)| format!("[\"{block:#x}\",{count}]"))
                .collect();
            let (instructions, blocks) = (stretch.instructions, blocks.join(","));
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{{\"program\":{program},\"masked\":{instructions},\"end\":\"{end:#x}\",\
                 \"blocks\":[{blocks}]}}"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_each_place_is_kept() {
        let mut masked = Masked::default();
        masked.start();
        masked.note(0x10, 5);
        masked.note(0x20, 8);
        masked.note(0x10, 5);
        masked.end(300, 0x30);
        masked.note(0x20, 8);
        masked.end(200, 0x30);
        assert_eq!(
            masked.to_json(),
            "{\"program\":1,\"masked\":300,\"end\":\"0x30\",\
             \"blocks\":[[\"0x10\",10],[\"0x20\",8]]}\n"
        );
    }
}
