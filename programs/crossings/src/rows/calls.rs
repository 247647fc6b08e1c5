//! The simplest crossings: a system call that does nothing, and a trapped instruction.

use super::Measured;
use crate::arch;
use crate::meter::{Meter, Outcome};

const TIMES: usize = 1000;

pub fn null(meter: &mut Meter) -> Measured {
    meter.batches(
        TIMES,
        || Ok(()),
        || {
            arch::null_calls(TIMES);
            Ok(())
        },
    )
}

pub fn id_read(meter: &mut Meter) -> Measured {
    let reads = arch::id_reads(meter.arguments.hwcap).ok_or(Outcome::Absent)?;
    meter.batches(
        TIMES,
        || Ok(()),
        || {
            reads(TIMES);
            Ok(())
        },
    )
}
