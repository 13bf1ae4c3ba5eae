// Molecular dynamics in f64 with the Lennard-Jones potential over all pairs. Positions are staged through shared
// memory; the velocity Verlet rule moves the particles.
// Arguments: particles (default 216), steps (default 5). Checks positions, velocities and energy against the
// CPU's run of the same steps, and that energy is conserved.
#include "check.h"

constexpr unsigned threads = 64;
constexpr double time_step = 0.002;

struct Vector {
    double x, y, z;
};

// Adds to `force` and `energy` what the particle at distance (dx, dy, dz) contributes; half of each pair's
// energy goes to either particle. Units: epsilon = sigma = mass = 1.
__host__ __device__ inline void add_pair(double dx, double dy, double dz, Vector &force, double &energy) {
    const double inverse = 1.0 / (dx * dx + dy * dy + dz * dz);
    const double sixth = inverse * inverse * inverse;
    const double scale = 24.0 * inverse * sixth * (2.0 * sixth - 1.0);
    force.x += scale * dx;
    force.y += scale * dy;
    force.z += scale * dz;
    energy += 2.0 * sixth * (sixth - 1.0);
}

__global__ void forces(const Vector *positions, Vector *force, double *energy, unsigned count) {
    __shared__ Vector others[threads];
    const unsigned i = blockIdx.x * threads + threadIdx.x;
    const Vector own = positions[i < count ? i : 0];
    Vector sum = {0, 0, 0};
    double potential = 0;
    for (unsigned start = 0; start < count; start += threads) {
        if (start + threadIdx.x < count) others[threadIdx.x] = positions[start + threadIdx.x];
        __syncthreads();
        const unsigned end = min(threads, count - start);
        for (unsigned k = 0; k < end; ++k)
            if (start + k != i)
                add_pair(own.x - others[k].x, own.y - others[k].y, own.z - others[k].z, sum, potential);
        __syncthreads();
    }
    if (i < count) {
        force[i] = sum;
        energy[i] = potential;
    }
}

// Half a step of velocity, then, if `move`, a whole step of position.
__global__ void advance(Vector *positions, Vector *velocities, const Vector *force, unsigned count, bool move) {
    const unsigned i = blockIdx.x * threads + threadIdx.x;
    if (i >= count) return;
    Vector v = velocities[i];
    v.x += 0.5 * time_step * force[i].x;
    v.y += 0.5 * time_step * force[i].y;
    v.z += 0.5 * time_step * force[i].z;
    velocities[i] = v;
    if (!move) return;
    positions[i].x += time_step * v.x;
    positions[i].y += time_step * v.y;
    positions[i].z += time_step * v.z;
}

// The state of one run, on the CPU.
struct System {
    std::vector<Vector> positions, velocities, force;
    std::vector<double> energy;

    void find_forces() {
        for (size_t i = 0; i < positions.size(); ++i) {
            force[i] = {0, 0, 0};
            energy[i] = 0;
            for (size_t k = 0; k < positions.size(); ++k)
                if (k != i)
                    add_pair(positions[i].x - positions[k].x, positions[i].y - positions[k].y,
                             positions[i].z - positions[k].z, force[i], energy[i]);
        }
    }

    void kick(bool move) {
        for (size_t i = 0; i < positions.size(); ++i) {
            Vector &v = velocities[i];
            v.x += 0.5 * time_step * force[i].x;
            v.y += 0.5 * time_step * force[i].y;
            v.z += 0.5 * time_step * force[i].z;
            if (!move) continue;
            positions[i].x += time_step * v.x;
            positions[i].y += time_step * v.y;
            positions[i].z += time_step * v.z;
        }
    }

    double total_energy() const {
        double sum = 0;
        for (size_t i = 0; i < positions.size(); ++i) {
            const Vector &v = velocities[i];
            sum += energy[i] + 0.5 * (v.x * v.x + v.y * v.y + v.z * v.z);
        }
        return sum;
    }
};

// Particles on a cubic lattice of 1.2 sigma, slightly displaced, with small random velocities.
static System crystal(size_t count) {
    System system;
    Inputs inputs;
    size_t edge = 1;
    while (edge * edge * edge < count) ++edge;
    for (size_t i = 0; i < count; ++i) {
        const auto shake = [&] { return static_cast<double>(inputs.uniform(-0.05f, 0.05f)); };
        system.positions.push_back({1.2 * (i % edge) + shake(), 1.2 * (i / edge % edge) + shake(),
                                    1.2 * (i / edge / edge) + shake()});
        system.velocities.push_back({10 * shake(), 10 * shake(), 10 * shake()});
    }
    system.force.resize(count);
    system.energy.resize(count);
    return system;
}

int main(int argc, char **argv) {
    const size_t count = size_argument(argc, argv, 1, 216);
    const size_t steps = size_argument(argc, argv, 2, 5);
    System system = crystal(count);
    Vector *positions = device_copy(system.positions);
    Vector *velocities = device_copy(system.velocities);
    Vector *force = device_alloc<Vector>(count);
    double *energy = device_alloc<double>(count);

    const unsigned blocks = blocks_for(count, threads);
    const unsigned particles = static_cast<unsigned>(count);
    forces<<<blocks, threads>>>(positions, force, energy, particles);
    for (size_t step = 0; step < steps; ++step) {
        advance<<<blocks, threads>>>(positions, velocities, force, particles, true);
        forces<<<blocks, threads>>>(positions, force, energy, particles);
        advance<<<blocks, threads>>>(positions, velocities, force, particles, false);
    }
    CHECK_LAUNCH();
    System got = system;
    got.positions = host_copy(positions, count);
    got.velocities = host_copy(velocities, count);
    got.energy = host_copy(energy, count);

    system.find_forces();
    const double before = system.total_energy();
    for (size_t step = 0; step < steps; ++step) {
        system.kick(true);
        system.find_forces();
        system.kick(false);
    }

    Verdict verdict;
    verdict.near("positions", &got.positions[0].x, &system.positions[0].x, 3 * count, 1e-10, 1e-10);
    verdict.near("velocities", &got.velocities[0].x, &system.velocities[0].x, 3 * count, 1e-9, 1e-9);
    verdict.near("potential energies", got.energy.data(), system.energy.data(), count, 1e-9, 1e-9);
    const double after = got.total_energy();
    std::printf("energy: %.9f before, %.9f after %zu steps\n", before, after, steps);
    verdict.expect(std::fabs(after - before) <= 1e-4 * count, "energy is conserved");
    CHECK(cudaFree(positions));
    CHECK(cudaFree(velocities));
    CHECK(cudaFree(force));
    CHECK(cudaFree(energy));
    return verdict.finish();
}
