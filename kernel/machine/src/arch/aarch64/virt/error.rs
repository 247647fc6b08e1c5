//! SErrors of the hardware that come while a guest runs (Arm ARM, ESR_ELx, "ISS encoding for an
//! SError exception").

/// The consequences of an SError.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// None: the error was corrected, or the state is intact.
    Harmless,
    /// The guest cannot continue as if nothing had happened.
    Guest,
    /// Neither the guest nor the host can continue.
    Fatal,
}

/// Fields of a syndrome: whether its meaning is implementation-defined; the type of an asynchronous
/// error; and the fault status.
const OWN: u64 = 1 << 24;
const TYPE: u32 = 10;
const KIND: u64 = 0x3f;
/// The fault status for which the type is valid.
const ASYNCHRONOUS: u64 = 0x11;

/// The syndrome of a guest's SError about which nothing more is known.
pub const UNKNOWN: u64 = OWN;

/// The severity of an SError, as on Linux; `has_syndrome` tells whether SErrors have syndromes
/// (FEAT_RAS). An error that is not known to be harmless or fatal affects the guest that ran.
pub fn severity(syndrome: u64, has_syndrome: bool) -> Severity {
    if !has_syndrome || syndrome & OWN != 0 {
        return Severity::Guest;
    }
    if syndrome & KIND != ASYNCHRONOUS {
        return Severity::Fatal;
    }
    match syndrome >> TYPE & 0b111 {
        // Restartable, and corrected.
        0b010 | 0b110 => Severity::Harmless,
        // Unrecoverable, and recoverable.
        0b001 | 0b011 => Severity::Guest,
        // Uncontainable, and reserved values.
        _ => Severity::Fatal,
    }
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn an_error_of_the_hardware_is_somebodys() {
        let severity_of = |kind: u64| severity(0x2f << 26 | kind << TYPE | ASYNCHRONOUS, true);
        let expected = [
            Severity::Fatal,
            Severity::Guest,
            Severity::Harmless,
            Severity::Guest,
            Severity::Fatal,
            Severity::Fatal,
            Severity::Harmless,
            Severity::Fatal,
        ];
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7].map(severity_of), expected);
        assert_eq!(severity(0x2f << 26 | 2 << TYPE, true), Severity::Fatal);
        assert_eq!(severity(0x2f << 26 | OWN, true), Severity::Guest);
        assert_eq!(severity(0x2f << 26, false), Severity::Guest);
    }
}
