//! Decodes a guest's write to an SGI register (GIC architecture specification IHI 0069,
//! ICC_SGI1R_EL1 and its siblings).

use crate::TargetList;

/// The register that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SgiRegister {
    /// ICC_SGI1R_EL1: Group 1 SGIs.
    Sgi1r,
    /// ICC_ASGI1R_EL1: Group 1 SGIs of the other security state.
    Asgi1r,
    /// ICC_SGI0R_EL1: Group 0 SGIs.
    Sgi0r,
}

impl SgiRegister {
    /// Whether a write may raise an SGI that its target has configured in Group 1 (`true`) or Group
    /// 0, with one security state (GICD_CTLR.DS = 1): ICC_SGI1R_EL1 raises either, the others only
    /// Group 0.
    #[inline]
    pub const fn may_raise(self, group1: bool) -> bool {
        matches!(self, SgiRegister::Sgi1r) || !group1
    }
}

/// The CPUs that an SGI goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The CPUs in the list, which may include the sender.
    List(TargetList),
    /// All CPUs but the sender (the interrupt routing mode, IRM).
    AllButSelf,
}

/// A write to an SGI register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sgi {
    /// The interrupt, 0 to 15.
    pub intid: u8,
    /// The CPUs that it goes to.
    pub destination: Destination,
}

impl Sgi {
    /// Decodes the value written: Aff3 55:48, RS 47:44, IRM 40, Aff2 39:32, INTID 27:24, Aff1
    /// 23:16, TargetList 15:0. The three registers share this layout.
    #[inline]
    pub const fn decode(value: u64) -> Sgi {
        let destination = if value >> 40 & 1 == 1 {
            Destination::AllButSelf
        } else {
            let (aff3, aff2, aff1) = (
                (value >> 48) as u8,
                (value >> 32) as u8,
                (value >> 16) as u8,
            );
            Destination::List(TargetList::new(
                aff3,
                aff2,
                aff1,
                (value >> 44) as u8 & 15,
                value as u16,
            ))
        };
        Sgi {
            intid: (value >> 24) as u8 & 15,
            destination,
        }
    }
}
