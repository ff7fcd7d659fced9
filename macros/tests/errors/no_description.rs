//! A tool without a description.

#[loopwright::tool(read_only)]
fn weather(city: String) -> String {
    city
}

fn main() {}
