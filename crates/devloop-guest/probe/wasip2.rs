//! A std program for WASI, nothing else: the import gate and the empty linker must refuse what it becomes.
fn main() {
    println!("{:?}", std::time::SystemTime::now());
}
