//! Coverage of the machine: without arguments the table of its opcodes, with PTX files whether their kernels can be
//! lowered.
//! For each file it prints the kernels that are refused and why; nothing is run.

use floe_machine::{GRANULE, Memory, Program, Store, isa};

const BASE: u64 = 0x2000_0000_0000;

fn main() {
    let files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() {
        isa::supported().iter().for_each(|name| println!("{name}"));
        return;
    }
    let memory = Memory::reserve(BASE, 1 << 40).expect("address space");
    let bytes = 64 * GRANULE;
    let backing = Store::new(bytes).and_then(|store| store.create(bytes)).expect("device memory");
    memory.map(BASE, bytes, &backing, 0).expect("mapping");
    let (mut lowered, mut refused) = (0, 0);
    for file in files {
        let text = std::fs::read_to_string(&file).expect("readable");
        let mut next = BASE;
        let mut allocate = |bytes: u64, align: u64| {
            let address = next.next_multiple_of(align);
            next = address + bytes;
            Some(address)
        };
        let program = match Program::load(&[&text], &memory, &mut allocate) {
            Ok(program) => program,
            Err(error) => {
                println!("{file}: {error}");
                continue;
            }
        };
        for name in program.kernel_names() {
            match program.kernel(name) {
                Ok(_) => lowered += 1,
                Err(error) => {
                    refused += 1;
                    println!("{file}: {error}");
                }
            }
        }
    }
    println!("lowered: {lowered}, refused: {refused}");
}
