//! Counters of privilege-boundary crossings: kinds, per-CPU storage, snapshots.
#![no_std]
#![forbid(unsafe_code)]
