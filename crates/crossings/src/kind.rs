//! The kinds of event that are counted.

/// Declares the sections and their kinds once; the enums, the names and the order come from this
/// list.
macro_rules! kinds {
    ($( $(#[$section_doc:meta])* $section:ident $section_name:literal {
        $( $(#[$kind_doc:meta])* $kind:ident $kind_name:literal, )*
    } )*) => {
        /// A family of crossings, as reports group them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Section {
            /// System calls by number. Its counters are those of
            /// [`Table::syscall`](crate::Table::syscall).
            Syscall,
            $( $(#[$section_doc])* $section, )*
        }

        impl Section {
            /// The name that reports print.
            pub const fn name(self) -> &'static str {
                match self {
                    Section::Syscall => "syscall",
                    $( Section::$section => $section_name, )*
                }
            }
        }

        /// A kind of crossing other than an ordinary system call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Kind {
            $( $( $(#[$kind_doc])* $kind, )* )*
        }

        impl Kind {
            /// All kinds, in the order of their numbers.
            pub const ALL: &'static [Kind] = &[ $( $( Kind::$kind, )* )* ];

            /// The number of kinds.
            pub const COUNT: usize = Kind::ALL.len();

            /// The section that the kind belongs to.
            pub const fn section(self) -> Section {
                match self { $( $( Kind::$kind => Section::$section, )* )* }
            }

            /// The name that reports print, unique within its section.
            pub const fn name(self) -> &'static str {
                match self { $( $( Kind::$kind => $kind_name, )* )* }
            }
        }
    };
}

kinds! {
    /// Calls that are not in the table of generic numbers.
    Call "call" {
        /// A number beyond the table: ENOSYS.
        CallUnknown "unknown",
    }
    /// Page faults, by what resolved them.
    Fault "fault" {
        /// First read of an anonymous page: the zero page.
        FaultAnonRead "anonymous-read",
        /// First write of an anonymous page: a zeroed page.
        FaultAnonWrite "anonymous-write",
        /// Read (or execution) of a file's page.
        FaultFileRead "file-read",
        /// Write to a shared file's page.
        FaultFileWrite "file-write",
        /// Write to a page shared copy on write, the zero page included.
        FaultCow "copy-on-write",
        /// The Access flag (or the dirty state) set by software.
        FaultAccessFlag "access-flag",
        /// The entry was valid and sufficient already: the access is retried.
        FaultSpurious "spurious",
        /// Answered with a signal, or with EFAULT in a system call.
        FaultRefused "refused",
        /// Taken in the kernel on a user address (copying in or out), whatever resolved it.
        FaultUaccess "kernel-uaccess",
        /// Taken in the kernel on a new kernel mapping that this CPU had not seen yet: one local
        /// fence.
        FaultNewMapping "new-mapping",
    }
    /// Instructions of user programs that trapped.
    Instruction "instruction" {
        /// Read of an ID register, emulated.
        EmulatedId "emulated-id",
        /// Any other emulated instruction or trapped system-register access.
        EmulatedOther "emulated-other",
        /// Undefined: SIGILL.
        Undefined "undefined",
        /// First use of floating point or Advanced SIMD (RISC-V: F and D).
        FpTrap "fp",
        /// First use of SVE or SME (RISC-V: V).
        VectorTrap "vector",
        /// Breakpoint, watchpoint or single step.
        Debug "debug",
    }
    /// Interrupts.
    Interrupt "interrupt" {
        /// The timer of this CPU.
        InterruptTimer "timer",
        /// From another CPU.
        InterruptIpi "ipi",
        /// From a device.
        InterruptDevice "device",
    }
    /// Work of the scheduler and of signals.
    Task "task" {
        /// A switch to another thread.
        ContextSwitch "context-switch",
        /// The delivery of a signal to a handler.
        Signal "signal",
    }
    /// Fences owed by changes of translations (`tlbi`, `sfence.vma`).
    Fence "fence" {
        /// One page, this CPU.
        FenceLocalPage "local-page",
        /// One address space, this CPU.
        FenceLocalAsid "local-asid",
        /// Everything, this CPU.
        FenceLocalAll "local-all",
        /// One page, all CPUs that may hold it.
        FenceBroadcastPage "broadcast-page",
        /// One address space, all CPUs that may hold it.
        FenceBroadcastAsid "broadcast-asid",
        /// Everything, all CPUs.
        FenceBroadcastAll "broadcast-all",
        /// Synchronisation of instruction caches with memory (`ic`, `fence.i`).
        FenceInstruction "instruction",
    }
    /// Mapped memory.
    Memory "memory" {
        /// Pages made valid in a user's address space, those of fault-around included. A table
        /// counts only pages that no kind of [`Kind::MAPPING`] counts; a snapshot has all.
        MappedPages "mapped-pages",
        /// Those of them in runs of 16 contiguous pages, counted as runs, which a TLB may hold as
        /// one entry.
        MappedRuns "mapped-runs",
    }
    /// Exits of guests to the hypervisor, by class.
    Guest "guest" {
        /// Hypercalls (HVC, SMC).
        GuestHvc "hvc",
        /// Trapped system registers other than SGI generation.
        GuestSysreg "sysreg",
        /// Writes that send SGIs.
        GuestSgi "sgi",
        /// Accesses to memory-mapped registers that the kernel emulates.
        GuestMmioKernel "mmio-kernel",
        /// Accesses to memory-mapped registers that the VMM emulates.
        GuestMmioVmm "mmio-vmm",
        /// WFI and WFE.
        GuestWfx "wfx",
        /// Physical interrupts.
        GuestIrq "irq",
        /// Faults of stage 2 on guest memory.
        GuestStage2 "stage2-fault",
        /// All others.
        GuestOther "other",
    }
}

impl Kind {
    /// Faults that map one page each.
    pub const MAPPING: [Kind; 4] = [
        Kind::FaultAnonRead,
        Kind::FaultAnonWrite,
        Kind::FaultFileRead,
        Kind::FaultFileWrite,
    ];
}
