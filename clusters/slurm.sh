#!/usr/bin/env bash
# A Ray cluster in a Slurm allocation for initmem: one Ray node on each machine, the study on the
# first of them, all of it gone at the end. docs/cluster.md walks through.
#
#   sbatch --nodes=4 --gpus-per-node=4 --time=8:00:00 clusters/slurm.sh studies/digits.yaml \
#       --run /shared/runs/digits --set resources.gpus=0.25
#
# What follows the script is given to `initmem run`. initmem and ray are found on PATH, in an
# environment that all machines share, such as one in your home folder; so is the token.
# The machines are taken whole, for at its end `ray symmetric-run` stops all Ray of this user there.
#SBATCH --job-name=initmem
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --no-kill
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail

export RAY_AUTH_MODE=token RAY_SYMMETRIC_RUN_CLUSTER_WAIT_TIMEOUT=300
ray get-auth-token --generate > /dev/null
ulimit -n "$(ulimit -Hn)"

read -r head _ < <(hostname -I) # this script runs on the first machine
export head

# Each task asks for what Slurm gave to its own machine.
# shellcheck disable=SC2016
exec srun --no-kill --kill-on-bad-exit=0 bash -c '
    exec ray symmetric-run --address "$head:6379" --min-nodes "$SLURM_JOB_NUM_NODES" \
        --num-cpus "$SLURM_CPUS_ON_NODE" --num-gpus "${SLURM_GPUS_ON_NODE:-0}" \
        --dashboard-host 127.0.0.1 -- initmem run --address "$head:6379" "$@"' initmem "$@"
