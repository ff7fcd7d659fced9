//! The parts of a session's id.

/// Splits the id of a session into the root's id and the part that sub-agents append.
pub(super) fn split(session: &str) -> (&str, &str) {
    let mut end = session.len();
    while let Some(at) = session[..end].rfind('/')
        && is_sub_agent(&session[at + 1..end])
    {
        end = at;
    }
    session.split_at(end)
}

/// Returns whether this is the part of a sub-agent's session id after its parent's id, such as
/// `m2.1`.
fn is_sub_agent(part: &str) -> bool {
    let numbers = part.strip_prefix('m').and_then(|rest| rest.split_once('.'));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    numbers.is_some_and(|(message, call)| is_number(message) && is_number(call))
}

/// Returns whether the id has the form of a generated one, for sessions whose host sets none.
pub(super) fn is_random(root: &str) -> bool {
    let digits = root.strip_prefix('s').filter(|digits| digits.len() == 16);
    digits.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ids_of_sub_agents_begin_with_that_of_the_root() {
        for (id, root, rest) in [
            ("root", "root", ""),
            ("root/m2.1", "root", "/m2.1"),
            ("a/b/m2.1/m10.0", "a/b", "/m2.1/m10.0"),
            ("a/m2", "a/m2", ""),
            ("a/m.1/b", "a/m.1/b", ""),
            ("", "", ""),
        ] {
            assert_eq!(split(id), (root, rest), "{id}");
        }
        assert!(is_random("s00ff00ff00ff00ff"));
        assert!(!is_random("s1") && !is_random("support-desk-0123"));
    }
}
