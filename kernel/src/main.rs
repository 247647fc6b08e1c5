//! The Stile kernel: its image.
#![no_std]
#![no_main]
#![forbid(unsafe_code)]

extern crate kernel as _;
