//! The path of one crossing through a kernel, from an instruction trace, and its steps.

use std::collections::BTreeMap;

use super::counted::{Executed, Ring};
use crate::arch::Arch;

/// The path from the user's call to the return.
pub struct Path {
    pub steps: Vec<Step>,
    /// The number of steps before the function that does the work: up to the last indirect call,
    /// for a system call; if there is none, up to the first call after the last indirect branch,
    /// for a fault.
    pub to_function: usize,
}

/// One executed instruction.
pub struct Step {
    pub pc: u64,
    pub text: String,
    /// The next instruction was not the one that follows in memory.
    pub taken: bool,
}

/// The counts of a path, or of a part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub instructions: usize,
    /// Conditional branches.
    pub tests: usize,
    pub taken: usize,
    /// Branches and calls to an address in a register, except returns.
    pub indirect: usize,
    pub returns: usize,
    pub loads: usize,
    pub stores: usize,
    /// The longest chain of loads in which each one's address comes from the one before.
    pub dependent_loads: usize,
    /// Reads and writes of system registers.
    pub system_registers: usize,
}

/// Mnemonics of conditional branches, except arm64's `b.cond`.
const TESTS: [&str; 16] = [
    "cbz", "cbnz", "tbz", "tbnz", "beq", "bne", "blt", "bge", "bltu", "bgeu", "beqz", "bnez",
    "bltz", "bgez", "blez", "bgtz",
];

fn mnemonic(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

impl Step {
    fn mnemonic(&self) -> &str {
        mnemonic(&self.text)
    }

    fn is_test(&self) -> bool {
        self.mnemonic().starts_with("b.") || TESTS.contains(&self.mnemonic())
    }

    fn is_return(&self) -> bool {
        matches!(self.mnemonic(), "ret" | "retaa" | "retab") || self.text.starts_with("jr ra")
    }

    fn is_indirect(&self) -> bool {
        matches!(
            self.mnemonic(),
            "br" | "blr" | "braa" | "blraa" | "jr" | "jalr"
        ) && !self.is_return()
    }

    fn is_call(&self) -> bool {
        matches!(self.mnemonic(), "blr" | "blraa" | "jalr") && !self.is_return()
    }

    fn is_direct_call(&self) -> bool {
        matches!(self.mnemonic(), "bl" | "jal" | "call")
    }

    /// Loads, including acquiring and exclusive ones.
    fn is_load(&self) -> bool {
        let mnemonic = self.mnemonic();
        let riscv = ["lb", "lbu", "lh", "lhu", "lw", "lwu", "ld"].contains(&mnemonic);
        mnemonic.starts_with("ld") || mnemonic.starts_with("lr.") || riscv
    }

    fn is_store(&self) -> bool {
        let mnemonic = self.mnemonic();
        let riscv = ["sb", "sh", "sw", "sd"].contains(&mnemonic);
        mnemonic.starts_with("st") || mnemonic.starts_with("sc.") || riscv
    }

    fn is_system(&self) -> bool {
        let mnemonic = self.mnemonic();
        matches!(mnemonic, "mrs" | "msr") || mnemonic.starts_with("csr")
    }

    /// The registers that the instruction names, in order; arm64's 32-bit names are converted to
    /// 64-bit ones.
    fn registers(&self) -> impl Iterator<Item = String> {
        let operands = self
            .text
            .split_once(' ')
            .map_or("", |(_, operands)| operands);
        let words = operands.split(|letter: char| !letter.is_ascii_alphanumeric());
        words
            .filter(|word| is_register(word))
            .map(|word| match word.strip_prefix('w') {
                Some(number) => format!("x{number}"),
                None => word.to_owned(),
            })
    }

    /// The number of registers, counted from the first, that are written.
    fn written(&self) -> usize {
        match self.mnemonic() {
            _ if self.is_store() || self.is_test() => 0,
            "cmp" | "cmn" | "tst" | "ccmp" | "msr" | "br" | "blr" | "ret" | "jr" => 0,
            "ldp" | "ldpsw" | "ldnp" | "ldxp" | "ldaxp" => 2,
            _ => 1,
        }
    }
}

/// Whether a word names a general register, except the stack pointer: data on the stack was stored
/// there on this path.
fn is_register(word: &str) -> bool {
    let (kind, number) = word.split_at(word.len().min(1));
    let numbered = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
    matches!(word, "gp" | "tp" | "ra") || numbered && matches!(kind, "x" | "w" | "a" | "s" | "t")
}

impl Path {
    /// The second crossing in the trace; the error explains why there is none.
    pub fn of(arch: Arch, trace: &[Executed]) -> Result<Self, String> {
        let whole = stay(arch, trace)?;
        let steps: Vec<Step> = whole
            .windows(2)
            .map(|pair| step(&pair[0], &pair[1]))
            .collect();
        let last = |is: fn(&Step) -> bool| steps.iter().rposition(is);
        let function = last(Step::is_call).or_else(|| {
            let dispatched = last(Step::is_indirect).map_or(0, |place| place + 1);
            let call = steps[dispatched..].iter().position(Step::is_direct_call);
            call.map(|place| dispatched + place)
        });
        let to_function = function.map_or(0, |place| place + 1);
        Ok(Self { steps, to_function })
    }

    /// The counts before the function that does the work.
    pub fn before(&self) -> Tally {
        tally(&self.steps[..self.to_function])
    }

    /// The counts from entry to return.
    pub fn whole(&self) -> Tally {
        tally(&self.steps)
    }
}

/// The instructions of the second stay in the kernel, without interrupts, and the user's first one
/// after it: the start of the first stay may be cut off. The error explains why there is no such
/// stay.
pub fn stay(arch: Arch, trace: &[Executed]) -> Result<&[Executed], String> {
    stay_and_rest(arch, trace).map(|(stay, _)| stay)
}

/// The instructions of [`stay`], and those of the program from there to the next stay.
pub fn stay_and_rest(arch: Arch, trace: &[Executed]) -> Result<(&[Executed], &[Executed]), String> {
    let user = |instruction: &Executed| instruction.ring == Ring::User;
    let entries: Vec<_> = trace
        .windows(2)
        .enumerate()
        .filter(|(_, pair)| user(&pair[0]) && pair[1].ring == Ring::Kernel)
        .map(|(place, _)| place + 1)
        .filter(|place| !is_interrupt(arch, address(&trace[*place].pc)))
        .collect();
    let whole = entries.get(1).and_then(|start| {
        let end = *start + trace[*start..].iter().position(user)?;
        let next = trace[end..].iter().position(|step| !user(step))?;
        Some((&trace[*start..=end], &trace[end..end + next]))
    });
    let (whole, rest) = whole.ok_or("no whole stay in the kernel in the trace")?;
    let (first, last) = (&whole[0], &whole[whole.len() - 2]);
    let begins = match arch {
        Arch::Arm64 => is_vector(address(&first.pc)),
        Arch::Riscv64 => entries.iter().all(|entry| trace[*entry].pc == first.pc),
    };
    if !begins {
        let Executed { pc, text, .. } = first;
        return Err(format!("the kernel is entered at {pc}, no vector: {text}"));
    }
    if !matches!(mnemonic(&last.text), "eret" | "eretaa" | "eretab" | "sret") {
        let Executed { pc, text, .. } = last;
        return Err(format!("the kernel is left at {pc} by no return: {text}"));
    }
    Ok((whole, rest))
}

/// The offset of an entry in an arm64 vector table, which has 2 KiB (Arm ARM, "Exception vectors").
fn in_table(pc: u64) -> u64 {
    pc & 0x7ff
}

/// Whether synchronous exceptions of programs enter at this address, from AArch64 or AArch32.
fn is_vector(pc: u64) -> bool {
    matches!(in_table(pc), 0x400 | 0x600)
}

/// Whether interrupts of programs enter at this address: IRQ, FIQ and SError. RISC-V has one entry
/// for everything.
fn is_interrupt(arch: Arch, pc: u64) -> bool {
    let others = matches!(in_table(pc), 0x480 | 0x500 | 0x580 | 0x680 | 0x700 | 0x780);
    arch == Arch::Arm64 && others
}

fn step(now: &Executed, next: &Executed) -> Step {
    let word = u32::from_str_radix(now.word.trim_start_matches("0x"), 16).unwrap_or(3);
    let (pc, length) = (
        address(&now.pc),
        if word & 3 == 3 || !is_compressed(now) {
            4
        } else {
            2
        },
    );
    Step {
        pc,
        text: now.text.split_whitespace().collect::<Vec<_>>().join(" "),
        taken: address(&next.pc) != pc.wrapping_add(length),
    }
}

/// Whether the instruction has two bytes, which exists only on RISC-V; its upper half is then zero.
fn is_compressed(instruction: &Executed) -> bool {
    instruction.word.starts_with("0x0000")
}

/// A number in the plugin's notation.
pub fn address(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or_default()
}

fn tally(steps: &[Step]) -> Tally {
    let count = |is: fn(&Step) -> bool| steps.iter().filter(|step| is(step)).count();
    Tally {
        instructions: steps.len(),
        tests: count(Step::is_test),
        taken: count(|step| step.taken),
        indirect: count(Step::is_indirect),
        returns: count(Step::is_return),
        loads: count(Step::is_load),
        stores: count(Step::is_store),
        dependent_loads: dependent_loads(steps),
        system_registers: count(Step::is_system),
    }
}

/// The longest chain of loads, where each register has the length of the chain behind its value.
fn dependent_loads(steps: &[Step]) -> usize {
    let mut behind = BTreeMap::<String, usize>::new();
    let mut longest = 0;
    for step in steps {
        let registers: Vec<_> = step.registers().collect();
        let (to, from) = registers.split_at(step.written().min(registers.len()));
        let depth = from
            .iter()
            .filter_map(|register| behind.get(register))
            .max()
            .copied()
            .unwrap_or(0);
        let depth = depth + usize::from(step.is_load());
        longest = longest.max(depth);
        for register in to {
            behind.insert(register.clone(), depth);
        }
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: u64 = 0xffff_0000_0000_0000;
    const VECTOR: u64 = KERNEL + 0x400;

    /// An instruction; it belongs to the kernel if its address does.
    fn executed(pc: u64, text: &str) -> Executed {
        Executed {
            pc: format!("{pc:#x}"),
            word: "0xd503201f".into(),
            ring: match pc < KERNEL {
                true => Ring::User,
                false => Ring::Kernel,
            },
            text: text.into(),
        }
    }

    fn call(at: u64) -> [Executed; 12] {
        [
            executed(0x1000, "svc #0"),
            executed(VECTOR, "b #0x10"),
            executed(VECTOR + 0x10, "mrs x21, sp_el0"),
            executed(VECTOR + 0x14, "ldr x1, [x21]"),
            executed(VECTOR + 0x18, "ldr w2, [x1, #8]"),
            executed(VECTOR + 0x1c, "cbz w2, #0x40"),
            executed(VECTOR + 0x20, "blr x2"),
            executed(VECTOR + 0x80, "str x0, [sp]"),
            executed(VECTOR + 0x84, "ret "),
            executed(VECTOR + 0x24, "eret "),
            executed(0x1004, "subs x15, x15, #1"),
            executed(0x1008 + at, "b.ne #0xffc"),
        ]
    }

    #[test]
    fn the_second_call_is_taken_apart() {
        let trace = [call(0), call(0), call(0)].concat();
        let path = Path::of(Arch::Arm64, &trace).unwrap();
        assert_eq!(path.steps.len(), 9);
        assert_eq!(
            path.whole(),
            Tally {
                instructions: 9,
                tests: 1,
                taken: 4,
                indirect: 1,
                returns: 1,
                loads: 2,
                stores: 1,
                dependent_loads: 2,
                system_registers: 1,
            }
        );
        assert_eq!(path.before().instructions, 6);
        let (way, rest) = stay_and_rest(Arch::Arm64, &trace).unwrap();
        assert_eq!((way.len(), rest.len()), (10, 3));
        assert!(Path::of(Arch::Arm64, &trace[..20]).is_err());
    }

    #[test]
    fn the_ring_decides_not_the_address() {
        let mut trace = [call(0), call(0), call(0)].concat();
        for step in &mut trace {
            if step.text.starts_with("str ") {
                step.pc = "0x40e8e6c0".into();
            }
        }
        assert_eq!(Path::of(Arch::Arm64, &trace).unwrap().steps.len(), 9);
    }

    #[test]
    fn interrupts_are_no_calls() {
        let interrupt = [
            executed(0x1000, "svc #0"),
            executed(VECTOR + 0x80, "nop"),
            executed(VECTOR + 0x84, "eret"),
        ];
        let trace = [&call(0)[..], &interrupt, &call(0), &call(0)].concat();
        assert_eq!(Path::of(Arch::Arm64, &trace).unwrap().steps.len(), 9);
    }

    #[test]
    fn what_begins_or_ends_elsewhere_is_refused() {
        let complaint = |arch, from: u64, to: &str| {
            let mut trace = [call(0), call(0), call(0)].concat();
            trace[13].pc = format!("{from:#x}");
            trace[21].text = to.into();
            Path::of(arch, &trace).err()
        };
        let at = |arch, from| complaint(arch, from, "eret").is_some();
        assert!(!at(Arch::Arm64, VECTOR));
        assert!(!at(Arch::Arm64, VECTOR + 0x200));
        assert!(!at(Arch::Arm64, KERNEL + 0x1_0400));
        assert!(at(Arch::Arm64, KERNEL));
        assert!(at(Arch::Arm64, VECTOR + 4));
        assert!(complaint(Arch::Arm64, VECTOR, "b #0x10").is_some());
        assert!(complaint(Arch::Riscv64, VECTOR, "sret").is_none());
        assert!(complaint(Arch::Riscv64, VECTOR + 4, "sret").is_some());
        assert!(complaint(Arch::Riscv64, VECTOR, "mret").is_some());
    }

    #[test]
    fn without_an_indirect_call_the_work_begins_with_the_first_call_behind_the_dispatch() {
        let fault = |dispatch: &'static str| {
            [
                executed(0x1000, "str x0, [x1]"),
                executed(VECTOR, "bl #0x8"),
                executed(VECTOR + 8, dispatch),
                executed(VECTOR + 0x20, "bl #0x40"),
                executed(VECTOR + 0x60, "bl #0x40"),
                executed(VECTOR + 0xa0, "eret "),
                executed(0x1000, "str x0, [x1]"),
            ]
        };
        let before = |dispatch| {
            let trace = [fault(dispatch), fault(dispatch), fault(dispatch)].concat();
            let path = Path::of(Arch::Arm64, &trace).unwrap();
            path.before().instructions
        };
        assert_eq!(before("br x2"), 3);
        assert_eq!(before("b #0x18"), 1);
    }
}
