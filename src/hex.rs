//! Bytes as hexadecimal digits.

use std::fmt::Write;

/// Returns two lower-case hexadecimal digits for each byte.
///
/// ```
/// assert_eq!(loopwright_core::hex::encode(&[0x0f, 0xa0]), "0fa0");
/// ```
pub fn encode(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}"); // writing to a string never fails
        digits
    })
}
