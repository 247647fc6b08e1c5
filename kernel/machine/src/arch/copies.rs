//! Tests of memcpy, memmove and memset for all architectures.

crate::selftest! {
    fn copies_and_fills() {
        let source: [u8; 200] = core::array::from_fn(|n| n as u8);
        for len in 0..=150 {
            for (offset, start) in (0..9).flat_map(|offset| (0..9).map(move |start| (offset, start))) {
                let mut target = [0xee; 200];
                target[offset..offset + len].copy_from_slice(&source[start..start + len]);
                assert!(target[offset..offset + len] == source[start..start + len]);
                assert!(target[..offset].iter().chain(&target[offset + len..]).all(|&byte| byte == 0xee));
                target[offset..offset + len].fill(7);
                assert!(target[offset..offset + len].iter().all(|&byte| byte == 7));
                assert!(target[..offset].iter().chain(&target[offset + len..]).all(|&byte| byte == 0xee));
                for (from, to) in [(0, offset), (offset, 0)] {
                    let mut moved = source;
                    moved.copy_within(from..from + len, to);
                    assert!(moved[to..to + len] == source[from..from + len]);
                    assert!(moved[to + len..].iter().zip(&source[to + len..]).all(|(a, b)| a == b));
                }
            }
        }
    }
}
