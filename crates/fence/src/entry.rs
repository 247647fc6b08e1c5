//! [`Unseen::take`](crate::Unseen::take) in the trap entry's assembly, which cannot call functions.

/// The instructions of a trap on the kernel's mapped area, from the look-up of the hart's word to
/// the fence. `tp` points to the hart's own memory; t0 and t1 are free, t2 is saved at `{spill} +
/// 16`.
///
/// The code jumps to label 3 if the hart has seen everything, and to label 5, before the fence at
/// label 4, if the fault injector is on. `tests/interleavings.rs` executes it together with
/// [`Unseen::mark`](crate::Unseen::mark).
#[macro_export]
macro_rules! take_unseen {
    () => {
        concat!(
            "ld t0, {unseen}(tp)\n",
            "ld t1, (t0)\n",
            "sd t2, {spill} + 16(tp)\n",
            "ld t2, {unseen_bit}(tp)\n",
            "and t1, t1, t2\n",
            "beqz t1, 3f\n",
            // Clears only this hart's bit, before the fence: a mapping made after this sets it
            // again.
            "amoxor.d.aqrl zero, t2, (t0)\n",
            "lla t0, {injecting}\n",
            "lbu t0, (t0)\n",
            "bnez t0, 5f\n",
            "4: sfence.vma",
        )
    };
}
