//! A list register (Arm IHI 0069, 12.4.9, ICH_LR<n>_EL2).

/// The content of a list register: one interrupt, its state and its priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ListRegister(pub u64);

/// Fields.
const PENDING: u64 = 1 << 62;
const ACTIVE: u64 = 1 << 63;
const HARDWARE: u64 = 1 << 61;
const GROUP_1: u64 = 1 << 60;
const PRIORITY: u32 = 48;
/// The field with the physical interrupt's number.
const PHYSICAL: u32 = 32;
/// For an interrupt that is not bound to a physical one: a maintenance interrupt reports its end.
const REPORTS_END: u64 = 1 << 41;

impl ListRegister {
    /// No interrupt.
    pub const EMPTY: Self = ListRegister(0);

    /// An interrupt that is neither pending nor active yet.
    pub const fn new(number: u32, priority: u8, group1: bool) -> Self {
        let group = if group1 { GROUP_1 } else { 0 };
        ListRegister(number as u64 | (priority as u64) << PRIORITY | group)
    }

    /// This interrupt, also pending.
    pub const fn pending(self) -> Self {
        ListRegister(self.0 | PENDING)
    }

    /// This interrupt, also active.
    pub const fn active(self) -> Self {
        ListRegister(self.0 | ACTIVE)
    }

    /// This interrupt, bound to the physical interrupt of the same number, which is deactivated
    /// with it.
    pub const fn of_hardware(self) -> Self {
        ListRegister(self.0 | HARDWARE | (self.number() as u64) << PHYSICAL)
    }

    /// This interrupt, with its end reported.
    pub const fn reporting_end(self) -> Self {
        ListRegister(self.0 | REPORTS_END)
    }

    /// The interrupt's number.
    pub const fn number(self) -> u32 {
        self.0 as u32
    }

    /// Its priority.
    pub const fn priority(self) -> u8 {
        (self.0 >> PRIORITY) as u8
    }

    /// Whether the interrupt is pending.
    pub const fn is_pending(self) -> bool {
        self.0 & PENDING != 0
    }

    /// Whether the interrupt is active.
    pub const fn is_active(self) -> bool {
        self.0 & ACTIVE != 0
    }

    /// Whether the interrupt is bound to a physical one (HW).
    pub const fn is_of_hardware(self) -> bool {
        self.0 & HARDWARE != 0
    }

    /// Whether its end is reported.
    pub const fn reports_end(self) -> bool {
        self.0 & (REPORTS_END | HARDWARE) == REPORTS_END
    }

    /// Whether no interrupt is pending or active in it.
    pub const fn is_empty(self) -> bool {
        self.0 & (PENDING | ACTIVE) == 0
    }
}
