//! The cache lines of memory that a phase touches.

use std::collections::BTreeMap;
use std::fmt::Write;

/// The logarithm of a line's bytes.
const LINE_SHIFT: u32 = 6;

/// One access by kernel code.
pub struct Access {
    /// The physical address.
    pub physical: u64,
    /// The virtual address.
    pub address: u64,
    /// The instruction's address.
    pub instruction: u64,
    /// The length in bytes.
    pub bytes: u64,
    pub store: bool,
}

/// How a line was used in a phase.
struct Use {
    loads: u64,
    stores: u64,
    /// In how many stays in the kernel it was touched, and the last of these.
    stays: u64,
    last_stay: u64,
    /// The first access, preferably a store: its address and instruction, for people to look up.
    address: u64,
    instruction: u64,
}

/// The lines of all phases, by tag and line.
#[derive(Default)]
pub struct Lines {
    lines: BTreeMap<(u32, u64), Use>,
    /// How often the kernel was left so far.
    stay: u64,
}

impl Lines {
    /// The kernel is left: lines touched from now on belong to another stay in it, so that a line
    /// that each operation touches can be told from one that a few touch often.
    pub fn leave(&mut self) {
        self.stay += 1;
    }

    /// Notes an access, which may cross into further lines.
    pub fn note(&mut self, tag: u32, access: &Access) {
        let last = access.physical + access.bytes.max(1) - 1;
        for line in access.physical >> LINE_SHIFT..=last >> LINE_SHIFT {
            let Access {
                address,
                instruction,
                ..
            } = *access;
            let used = self.lines.entry((tag, line)).or_insert(Use {
                loads: 0,
                stores: 0,
                stays: 0,
                last_stay: u64::MAX,
                address,
                instruction,
            });
            if used.last_stay != self.stay {
                (used.stays, used.last_stay) = (used.stays + 1, self.stay);
            }
            if access.store {
                if used.stores == 0 {
                    (used.address, used.instruction) = (address, instruction);
                }
                used.stores += 1;
            } else {
                used.loads += 1;
            }
        }
    }

    /// One JSON object a line: phase, physical line, loads, stores, stays in the kernel that
    /// touched it, and an access to look up.
    pub fn to_json(&self) -> String {
        let mut text = String::new();
        for ((tag, line), used) in &self.lines {
            let Use {
                loads,
                stores,
                stays,
                address,
                instruction,
                ..
            } = used;
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{{\"phase\":{tag},\"line\":\"{:#x}\",\"loads\":{loads},\"stores\":{stores},\"stays\":{stays},\
                 \"address\":\"{address:#x}\",\"instruction\":\"{instruction:#x}\"}}",
                line << LINE_SHIFT
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_may_span_lines_and_a_store_is_the_one_to_look_up() {
        let mut lines = Lines::default();
        let access = |physical, instruction, store| Access {
            physical,
            address: physical | 0xff << 56,
            instruction,
            bytes: 8,
            store,
        };
        lines.note(1, &access(0x1000, 0x10, false));
        lines.note(1, &access(0x1000, 0x10, false));
        lines.leave();
        lines.note(1, &access(0x103c, 0x20, true));
        assert_eq!(
            lines.to_json(),
            "{\"phase\":1,\"line\":\"0x1000\",\"loads\":2,\"stores\":1,\"stays\":2,\
             \"address\":\"0xff0000000000103c\",\"instruction\":\"0x20\"}\n\
             {\"phase\":1,\"line\":\"0x1040\",\"loads\":0,\"stores\":1,\"stays\":1,\
             \"address\":\"0xff0000000000103c\",\"instruction\":\"0x20\"}\n"
        );
    }
}
