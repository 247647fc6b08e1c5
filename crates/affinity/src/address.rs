//! How a guest addresses CPUs.

/// The four affinity fields of a CPU, packed as `Aff3.Aff2.Aff1.Aff0`. The other bits of an MPIDR
/// (RES1, U, MT) are not part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Affinity(u32);

impl Affinity {
    /// The affinity in a register with the layout of MPIDR_EL1: Aff3 in bits 39:32, Aff2 to Aff0 in
    /// bits 23:0 (Arm ARM, MPIDR_EL1). GICD_IROUTER and the arguments of PSCI calls have the same
    /// layout.
    #[inline]
    pub const fn from_mpidr(mpidr: u64) -> Affinity {
        Affinity((mpidr >> 8) as u32 & 0xff00_0000 | mpidr as u32 & 0xff_ffff)
    }

    /// The affinity in the layout of MPIDR_EL1, with all other bits zero.
    pub const fn to_mpidr(self) -> u64 {
        (self.0 as u64 & 0xff00_0000) << 8 | self.0 as u64 & 0xff_ffff
    }

    /// The affinity that Linux gives the vCPU with this id (`reset_mpidr`): each cluster has 16
    /// CPUs, so that one target list can name all of them.
    pub const fn of_vcpu_id(id: u32) -> Affinity {
        Affinity((id >> 12 & 0xff) << 16 | (id >> 4 & 0xff) << 8 | id & 0xf)
    }

    /// Whether `other` is the same CPU (`level` 0), or in the same cluster at affinity level 1 to
    /// 3, as for the lowest affinity level of PSCI's AFFINITY_INFO. Above 3, all CPUs match.
    pub const fn matches(self, other: Affinity, level: u32) -> bool {
        (self.0 as u64 ^ other.0 as u64) >> (if level < 4 { level * 8 } else { 32 }) == 0
    }

    /// The group of sixteen CPUs that this one is in. One target list can name all of them.
    #[inline]
    pub(crate) const fn group(self) -> u32 {
        self.0 >> 4
    }

    /// The CPU's number in that group.
    #[inline]
    pub(crate) const fn member(self) -> u32 {
        self.0 & 15
    }
}

/// The CPUs that one SGI names: any of sixteen whose affinities differ only in the low four bits of
/// Aff0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetList {
    group: u32,
    members: u16,
}

impl TargetList {
    /// CPU `Aff3.Aff2.Aff1.(16 × range + n)` for each bit n of `members`. `range` is the range
    /// selector, 0 to 15.
    #[inline]
    pub const fn new(aff3: u8, aff2: u8, aff1: u8, range: u8, members: u16) -> TargetList {
        let cluster = (aff3 as u32) << 16 | (aff2 as u32) << 8 | aff1 as u32;
        TargetList {
            group: cluster << 4 | range as u32 & 15,
            members,
        }
    }

    /// The group of sixteen that the list belongs to.
    #[inline]
    pub(crate) const fn group(self) -> u32 {
        self.group
    }

    /// A bit for each member of the group that the list names.
    #[inline]
    pub const fn members(self) -> u16 {
        self.members
    }

    /// Removes a CPU of its group from the list.
    #[inline]
    pub(crate) const fn remove(&mut self, cpu: Affinity) {
        self.members &= !(1 << cpu.member());
    }

    /// Whether the list names this CPU.
    #[inline]
    pub const fn names(self, cpu: Affinity) -> bool {
        cpu.group() == self.group && self.members >> cpu.member() & 1 == 1
    }
}
