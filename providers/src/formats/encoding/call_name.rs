//! Names in calls: a model may invent some that servers refuse in a conversation.

use std::borrow::Cow;

/// The maximum length of a name.
const MAX_NAME: usize = 64;

/// Returns the name, or one like it if servers do not accept it: at most 64 letters, digits, `_`
/// and `-`. Names of tools are never changed. An error result follows a call of any other name.
pub(crate) fn fit_name(name: &str) -> Cow<'_, str> {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match name {
        "" => Cow::Borrowed("unnamed"),
        name if name.len() <= MAX_NAME && name.chars().all(legal) => Cow::Borrowed(name),
        name => {
            let fit = name.chars().take(MAX_NAME).map(|c| if legal(c) { c } else { '_' });
            Cow::Owned(fit.collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_unless_servers_refuse_it() {
        let long = "n".repeat(MAX_NAME);
        for (name, fit) in [
            ("read_file", "read_file"),
            ("7-z", "7-z"),
            (&*long, &*long),
            (&*format!("{long}n"), &*long),
            ("functions.read_file", "functions_read_file"),
            ("née 😀", "n_e__"),
            ("", "unnamed"),
        ] {
            assert_eq!(fit_name(name), fit);
        }
    }
}
