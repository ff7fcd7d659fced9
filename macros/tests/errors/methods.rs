//! Methods that cannot be tools.

struct Bank;

impl Bank {
    /// Pays.
    #[loopwright::tool]
    fn alone(&self) {}
}

struct Other;

#[loopwright::tools]
impl Other {
    /// Pays.
    #[tool]
    fn pay(&mut self, euros: u32) {}
}

struct Third;

#[loopwright::tools]
impl Third {
    fn pay(&self) {}
}

struct Fourth;

#[loopwright::tools]
impl Fourth {
    /// Pays.
    #[tool]
    fn pay(euros: u32) {}
}

#[loopwright::tools]
impl Clone for Fourth {
    fn clone(&self) -> Self {
        Fourth
    }
}

#[loopwright::tools(sequential)]
impl Fourth {}

fn main() {}
