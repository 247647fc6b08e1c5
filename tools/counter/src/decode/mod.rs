//! The instructions that are counted, and their counters.

mod arm64;
mod riscv;

/// An instruction, or a family of them, that has a counter.
pub struct Pattern {
    /// The bits that decide.
    pub mask: u32,
    /// The value that these bits must have.
    pub value: u32,
    /// Up to two sets of bits, each with a value that is left out.
    except: [Option<(u32, u32)>; 2],
    /// The counter's name.
    pub name: &'static str,
}

impl Pattern {
    const fn except(self, mask: u32, value: u32) -> Self {
        Self {
            except: [Some((mask, value)), self.except[0]],
            ..self
        }
    }

    fn matches(&self, word: u32) -> bool {
        let left_out = self
            .except
            .iter()
            .flatten()
            .any(|(mask, value)| word & mask == *value);
        word & self.mask == self.value && !left_out
    }
}

const fn pattern(mask: u32, value: u32, name: &'static str) -> Pattern {
    assert!(value & !mask == 0, "a value has bits outside its mask");
    Pattern {
        mask,
        value,
        except: [None; 2],
        name,
    }
}

/// The privilege of an instruction, by the level that it runs at.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ring {
    User,
    /// Also a hypervisor's kernel, and that of a guest.
    Kernel,
    /// arm64's EL3 and RISC-V's machine mode.
    Firmware,
}

/// The registers of a CPU that is about to execute a block for the first time.
#[derive(Clone, Copy)]
pub struct Level {
    /// PSTATE of arm64, or RISC-V's `priv`.
    pub state: u64,
    pub pc: u64,
}

impl Ring {
    pub const ALL: [Self; 3] = [Self::User, Self::Kernel, Self::Firmware];

    pub fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Kernel => "kernel",
            Self::Firmware => "firmware",
        }
    }
}

/// The instruction set of the machine.
pub struct Isa {
    /// All patterns: an instruction counts for each that it matches.
    pub patterns: &'static [Pattern],
    marker: fn(u32) -> Option<u32>,
    /// Whether an instruction is one where interrupts that are pending are taken.
    opens: fn(u32) -> bool,
    /// Where a block begins so, the stack pointer holds something else.
    without_stack: Option<u32>,
    /// The name of the pattern that leaves the kernel.
    leaving: &'static str,
    /// The name of the pattern that enters the kernel.
    entering: &'static str,
    /// The level, 0 to 3, of code at this address.
    level: fn(Level, u64) -> u32,
}

impl Isa {
    /// The instruction set of a QEMU target.
    pub fn of_target(name: &str) -> Option<Self> {
        match name {
            "aarch64" => Some(Self {
                patterns: arm64::PATTERNS,
                marker: arm64::marker,
                opens: arm64::opens,
                without_stack: Some(arm64::WITHOUT_STACK),
                leaving: "eret",
                entering: "svc",
                level: arm64::level,
            }),
            "riscv64" => Some(Self {
                patterns: riscv::PATTERNS,
                marker: riscv::marker,
                opens: riscv::opens,
                without_stack: None,
                leaving: "sret",
                entering: "ecall",
                level: riscv::level,
            }),
            _ => None,
        }
    }

    /// The places in [`Isa::patterns`] that the word matches.
    pub fn matches(&self, word: u32) -> impl Iterator<Item = usize> {
        let matching = move |(_, pattern): &(usize, &Pattern)| pattern.matches(word);
        self.patterns
            .iter()
            .enumerate()
            .filter(matching)
            .map(|(place, _)| place)
    }

    fn is(&self, word: u32, name: &str) -> bool {
        self.matches(word)
            .any(|place| self.patterns[place].name == name)
    }

    /// Whether the word returns from an exception.
    pub fn leaves(&self, word: u32) -> bool {
        self.is(word, self.leaving)
    }

    /// Whether the stack pointer holds nothing of the kind where a block begins with this word.
    pub fn lacks_stack(&self, word: u32) -> bool {
        self.without_stack == Some(word)
    }

    /// Whether the word is a system call, if a program executes it.
    pub fn calls(&self, word: u32) -> bool {
        self.is(word, self.entering)
    }

    /// Whether the kernel takes interrupts that are pending here: it returns from an exception,
    /// waits, or asks whether there are any.
    pub fn opens(&self, word: u32) -> bool {
        self.leaves(word) || (self.opens)(word)
    }

    /// The tag, if the word is a marker.
    pub fn marker(&self, word: u32) -> Option<u32> {
        (self.marker)(word)
    }

    /// The level of a block that begins at this address, given the CPU's registers as it is
    /// translated. The address alone does not say it: QEMU keeps a block for all addresses that a
    /// page has, under the first at which it was executed.
    pub fn level(&self, level: Level, begin: u64) -> u32 {
        (self.level)(level, begin)
    }

    /// The privilege of code at a level.
    pub fn ring(level: u32) -> Ring {
        match level {
            0 => Ring::User,
            3 => Ring::Firmware,
            _ => Ring::Kernel,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(target: &str, word: u32) -> Vec<&'static str> {
        let isa = Isa::of_target(target).unwrap();
        isa.matches(word)
            .map(|place| isa.patterns[place].name)
            .collect()
    }

    /// Words as the assembler of LLVM 21 gives them.
    #[test]
    fn arm64_words() {
        for (word, expected) in [
            (0xd538_0600, &["idreg.read"][..]), // mrs x0, ID_AA64ISAR0_EL1
            (0xd538_0720, &["idreg.read", "idreg.mmfr1.read"]), // mrs x0, ID_AA64MMFR1_EL1
            (0xd538_00a0, &["idreg.read"]),     // mrs x0, MPIDR_EL1
            (0xd53b_e040, &["sysreg.read"]),    // mrs x0, CNTVCT_EL0
            (0xd69f_0bff, &["eret"]),           // eretaa
            (0xd538_d080, &["sysreg.read"]),    // mrs x0, TPIDR_EL1
            (0xd518_2000, &["sysreg.write", "ttbr0.write"]), // msr TTBR0_EL1, x0
            (0xd518_cba0, &["sysreg.write", "sgi.write"]), // msr ICC_SGI1R_EL1, x0
            (0xd503_42df, &["pstate.write"]),   // msr DAIFSet, #2
            (0xd508_8320, &["tlbi", "tlbi.vae1is"]), // tlbi VAE1IS, x0
            (0xd508_871f, &["tlbi", "tlbi.vmalle1"]), // tlbi VMALLE1
            (0xd508_82a0, &["tlbi", "tlbi.rvale1is"]), // tlbi RVALE1IS, x0
            (0xd50c_80e0, &["tlbi"]),           // no such tlbi by name
            (0xd69f_03e0, &["eret"]),
            (0xd400_0001, &["svc"]),
            (0xc85f_7c20, &["exclusive.load"]),  // ldxr x0, [x1]
            (0x8800_7c41, &["exclusive.store"]), // stxr w0, w1, [x2]
            (0xf820_0041, &["atomic"]),          // ldadd x0, x1, [x2]
            (0xf820_8041, &["atomic"]),          // swp x0, x1, [x2]
            (0xc8a0_7c41, &["atomic"]),          // cas x0, x1, [x2]
            (0xf8bf_c041, &[]),                  // ldapr x1, [x2]
            (0xc89f_fc20, &["ordered"]),         // stlr x0, [x1]
            (0xd503_3b9f, &["dsb"]),             // dsb ish
            (0xd503_3fdf, &["isb"]),
            (0xd61f_0000, &["branch.indirect"]), // br x0
            (0xd65f_03c0, &["branch.return"]),
            (0xd503_201f, &[]), // nop
        ] {
            assert_eq!(names("aarch64", word), expected, "{word:#x}");
        }
    }

    #[test]
    fn riscv_words() {
        for (word, expected) in [
            (0x1200_0073, &["sfence.vma", "sfence.vma.all"][..]),
            (0x1205_0073, &["sfence.vma", "sfence.vma.address"]), // sfence.vma a0
            (0x12b0_0073, &["sfence.vma", "sfence.vma.asid"]),    // sfence.vma zero, a1
            (0x12b5_0073, &["sfence.vma", "sfence.vma.address_asid"]), // sfence.vma a0, a1
            (0x0000_100f, &["fence.i"]),
            (0x1020_0073, &["sret"]),
            (0x3020_0073, &["mret"]),
            (0x0000_0073, &["ecall"]),
            (0x1005_1073, &["csr.write"]),       // csrw sstatus, a0
            (0x1005_37f3, &["csr.write"]),       // csrrc a5, sstatus, a0
            (0x1000_2573, &["csr.read"]),        // csrr a0, sstatus
            (0xc010_2573, &["csr.read"]),        // rdtime a0
            (0x1001_6073, &["csr.write"]),       // csrsi sstatus, 2
            (0x1005_252f, &["exclusive.load"]),  // lr.w a0, (a0)
            (0x18b5_252f, &["exclusive.store"]), // sc.w a0, a1, (a0)
            (0x00b5_352f, &["atomic"]),          // amoadd.d a0, a1, (a0)
            (0x0000_9002, &["ebreak"]),          // c.ebreak
            (0x0000_0013, &[]),                  // nop
        ] {
            assert_eq!(names("riscv64", word), expected, "{word:#x}");
        }
    }

    #[test]
    fn markers_carry_their_tag() {
        let (arm64, riscv) = (
            Isa::of_target("aarch64").unwrap(),
            Isa::of_target("riscv64").unwrap(),
        );
        assert_eq!(arm64.marker(0xd280_00ff), Some(7)); // movz xzr, #7
        assert_eq!(arm64.marker(0xd280_00e0), None); // movz x0, #7
        assert_eq!(arm64.marker(0xe320_f0f9), Some(9)); // dbg #9
        assert_eq!(arm64.marker(0xe320_f000), None); // nop, of 32 bits
        assert_eq!(riscv.marker(0x0070_2013), Some(7)); // slti x0, x0, 7
        assert_eq!(riscv.marker(0x0070_2093), None); // slti x1, x0, 7
    }

    #[test]
    fn rings_go_by_level() {
        let ring = |target, state, pc, begin| {
            let isa = Isa::of_target(target).unwrap();
            Isa::ring(isa.level(Level { state, pc }, begin))
        };
        let arm64 = |state, begin| ring("aarch64", state, begin, begin);
        // PSTATE with flags and masks of interrupts, and the level as the architecture has it.
        assert_eq!(arm64(0x6000_03c5, 0xffff_8000_8000_0000), Ring::Kernel);
        assert_eq!(arm64(0x6000_0000, 0x40_0000), Ring::User);
        assert_eq!(arm64(0x3c9, 0xffff_8000_8000_0000), Ring::Kernel); // EL2h
        assert_eq!(arm64(0x3cd, 0x1000), Ring::Firmware);
        // A kernel before it has its own addresses.
        assert_eq!(arm64(0x3c5, 0x40e8_e6c0), Ring::Kernel);
        // A 32-bit program, of which QEMU's register still shows the kernel that it came from.
        let left = 0xffff_8000_8001_1f00;
        assert_eq!(ring("aarch64", 0x3c5, left, 0x1_0000), Ring::User);

        let riscv = |state, begin| ring("riscv64", state, begin, begin);
        assert_eq!(riscv(0, 0x1_0000), Ring::User);
        assert_eq!(riscv(1, 0xffff_ffff_8000_0000), Ring::Kernel);
        assert_eq!(riscv(1, 0x8020_0000), Ring::Kernel);
        assert_eq!(riscv(3, 0x8000_0000), Ring::Firmware);
        assert_eq!(riscv(5, 0x8020_0000), Ring::Kernel); // a guest's
    }
}
