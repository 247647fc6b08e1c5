//! How deep the stacks of Stile's threads become in each system call.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

/// The size of a stack, above a guard of the same size (`KERNEL_STACK_SIZE`).
const SIZE: u64 = 16 << 10;

/// The greatest depth, and the block that began there.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Deepest {
    bytes: u64,
    block: u64,
}

/// The depths by the numbers of calls; none is for whatever happens outside of a call.
#[derive(Default)]
pub struct Stacks {
    /// The call that the program is making.
    made: Option<u64>,
    /// The calls that are being executed, by the tops of stacks.
    calls: HashMap<u64, u64>,
    /// The top of the stack now.
    top: u64,
    deepest: BTreeMap<Option<u64>, Deepest>,
}

impl Stacks {
    /// A program makes a call.
    pub fn call(&mut self, number: u64) {
        self.made = Some(number);
    }

    /// A block of the kernel begins with this stack pointer.
    pub fn note(&mut self, block: u64, pointer: u64) {
        let top = pointer.next_multiple_of(2 * SIZE);
        let bytes = top - pointer;
        // Where the kernel has just been entered, the program's pointer may be there still; a stack
        // that has overflowed is left at once.
        if pointer >> 63 == 0 || bytes > SIZE {
            return;
        }
        self.top = top;
        if let Some(number) = self.made.take() {
            self.calls.insert(top, number);
        }
        let call = self.calls.get(&top).copied();
        let deepest = self.deepest.entry(call).or_default();
        *deepest = (*deepest).max(Deepest { bytes, block });
    }

    /// A program continues.
    pub fn leave(&mut self) {
        self.calls.remove(&self.top);
    }

    /// One JSON object a line.
    pub fn to_json(&self) -> String {
        let mut text = String::new();
        for (call, Deepest { bytes, block }) in &self.deepest {
            let call = call.map_or("null".to_owned(), |number| number.to_string());
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{{\"call\":{call},\"bytes\":{bytes},\"block\":\"{block:#x}\"}}"
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stack_has_its_call() {
        let (one, other) = (0xffff_ffc0_0001_0000, 0xffff_ffc0_0002_0000);
        let mut stacks = Stacks::default();
        stacks.note(0x10, one - 300);
        stacks.call(64);
        stacks.note(0x20, 0x7fff_0000);
        stacks.note(0x30, one);
        stacks.note(0x40, one - 500);
        stacks.call(63);
        stacks.note(0x50, other - 700);
        stacks.note(0x60, one - 400);
        stacks.note(0x70, one - SIZE - 16);
        stacks.leave();
        stacks.note(0x80, one - 200);
        assert_eq!(
            stacks.to_json(),
            "{\"call\":null,\"bytes\":300,\"block\":\"0x10\"}\n\
             {\"call\":63,\"bytes\":700,\"block\":\"0x50\"}\n\
             {\"call\":64,\"bytes\":500,\"block\":\"0x40\"}\n"
        );
    }
}
