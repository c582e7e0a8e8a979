#!/bin/sh
# A fake nvidia-smi: it shows the GPUs and slices that nicrails-faker has written beside it. It needs nothing but a shell,
# for it runs in other people's containers. Forms: -L, --query-gpu=… --format=csv…, topo -m, mig -lgi, and the table.
#
# MOCK_NVIDIA_VISIBLE_DEVICES has UUIDs or indices of the GPUs and slices that the container was given, or "all"; unset is
# all. Values from outside are only ever compared or printed, never evaluated.
set -f
unset CDPATH
IFS=' '

fail() {
    status=$1
    shift
    printf '%s\n' "$*"
    exit "$status"
}

bad_arguments() {
    fail 2 "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help."
}

for data in "${0%/*}/nvidia-smi.d" /run/nicrails-faker/nvidia-smi /var/lib/nicrails-faker/nvidia-smi.d; do
    [ -d "$data/current" ] && break
done
# From here on it is one state, also while a newer one is written.
cd -P "$data/current" 2>/dev/null || {
    printf '%s\n\n' "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running."
    exit 9
}
{ read -r driver && read -r cuda; } <versions

# -- what the container sees ---------------------------------------------------------------------------------------------

visible=${MOCK_NVIDIA_VISIBLE_DEVICES-all}

named() {
    case ",$visible," in *",$1,"*) return 0 ;; esac
    return 1
}

has() {
    case $1 in *" $2 "*) return 0 ;; esac
    return 1
}

# The slices of the GPU of this number that are seen, one "number|line of the file" each, go to the function $2.
each_slice() {
    [ -e "slices/$1" ] || return 0
    device=0
    at=0
    while IFS= read -r slice; do
        if has "$whole" "$1" || named "${slice%%|*}" || named "$1:$at"; then
            "$2" "$device" "$slice"
            device=$((device + 1))
        fi
        at=$((at + 1))
    done <"slices/$1"
}

noted() { found=yes; }

# Numbers of the GPUs that are seen: whole ones, and all. A container sees the GPU that its slice is a part of.
whole=' ' shown=' ' count=0 number=0
while IFS='|' read -r uuid bus name memory mig; do
    found=
    if [ "$visible" = all ] || named "$uuid" || named "$number"; then
        whole="$whole$number "
        found=yes
    else
        each_slice "$number" noted
    fi
    if [ "$found" ]; then
        shown="$shown$number "
        count=$((count + 1))
    fi
    number=$((number + 1))
done <gpus

# Each GPU that is seen and selected, in variables and by the index that it has in the container, goes to the function $1.
each_gpu() {
    index=0
    number=0
    while IFS='|' read -r uuid bus name memory mig; do
        if has "$shown" "$number"; then
            case ",$selected," in
            ,, | *",$index,"* | *",$uuid,"* | *",$bus,"*)
                matched=yes
                "$1"
                ;;
            esac
            index=$((index + 1))
        fi
        number=$((number + 1))
    done <gpus
}

# -- -L ------------------------------------------------------------------------------------------------------------------

list_slice() {
    slice_uuid=${2%%|*}
    profile=${2#*|}
    printf '  MIG %-11s Device %2d: (UUID: %s)\n' "${profile%%|*}" "$1" "$slice_uuid"
}

list_gpu() {
    printf 'GPU %d: %s (UUID: %s)\n' "$index" "$name" "$uuid"
    each_slice "$number" list_slice
}

# -- --query-gpu -----------------------------------------------------------------------------------------------------------

# The value and the unit of a field of the present GPU; without one, the field is unknown.
field() {
    unit= value='[N/A]'
    case $1 in
    index) value=$index ;;
    count) value=$count ;;
    uuid | gpu_uuid) value=$uuid ;;
    name | gpu_name) value=$name ;;
    driver_version) value=$driver ;;
    pci.bus_id | gpu_bus_id) value=$bus ;;
    pci.domain) value=0x${bus%%:*} ;;
    pci.bus) value=${bus#*:} && value=0x${value%%:*} ;;
    pci.device) value=${bus##*:} && value=0x${value%%.*} ;;
    memory.total | memory.free) unit=MiB value=${memory:-'[N/A]'} ;;
    memory.used | memory.reserved) unit=MiB value=0 ;;
    mig.mode.current | mig.mode.pending) value=$mig ;;
    compute_mode) value=Default ;;
    pstate) value=P0 ;;
    persistence_mode) value=Enabled ;;
    # What a GPU in MIG mode uses is not known of the whole of it.
    utilization.gpu | utilization.memory) unit=% value=0 && [ "$mig" = Enabled ] && value='[N/A]' ;;
    temperature.gpu | temperature.memory | serial | gpu_serial | vbios_version | compute_cap | display_active | display_mode | fan.speed | accounting.mode) ;;
    ecc.mode.current | ecc.mode.pending | pcie.link.gen.current | pcie.link.gen.max | pcie.link.width.current | pcie.link.width.max) ;;
    power.draw | power.limit | enforced.power.limit | power.default_limit | power.max_limit) unit=W ;;
    clocks.sm | clocks.mem | clocks.gr | clocks.current.sm | clocks.current.memory | clocks.max.sm | clocks.max.memory) unit=MHz ;;
    *) return 1 ;;
    esac
    return 0
}

query_row() {
    line=
    IFS=,
    for wanted in $query; do
        wanted=${wanted# }
        field "$wanted"
        case $value in '['*) ;; *) [ "$units" ] && [ "$unit" ] && value="$value $unit" ;; esac
        line="$line${line:+, }$value"
    done
    IFS=' '
    printf '%s\n' "$line"
}

query_gpus() {
    heading=
    uuid= bus= name= memory= mig= index=
    IFS=,
    for wanted in $query; do
        wanted=${wanted# }
        field "$wanted" || {
            printf 'Field "%s" is not a valid field to query.\n\n' "$wanted"
            exit 2
        }
        heading="$heading${heading:+, }$wanted"
        [ "$units" ] && [ "$unit" ] && heading="$heading [$unit]"
    done
    IFS=' '
    [ "$heading" ] || bad_arguments
    [ "$count" -gt 0 ] || fail 6 'No devices were found'
    [ "$header" ] && printf '%s\n' "$heading"
    each_gpu query_row
}

# -- topo -m -------------------------------------------------------------------------------------------------------------

# The file has a line "label|cell cell …|affinities" for each device, after one with the labels of the columns.
topo() {
    [ "$count" -gt 0 ] || fail 6 'No devices were found'
    if [ "$count" -eq "$number" ]; then
        while IFS= read -r line; do
            printf '%s\n' "$line"
        done <topo
        return
    fi
    row=-1
    new=0
    while IFS='|' read -r label cells tail; do
        case $label in
        GPU[0-9]*)
            if ! has "$shown" "$row"; then
                row=$((row + 1))
                continue
            fi
            label=GPU$new
            new=$((new + 1))
            ;;
        esac
        line=$label
        column=0
        seen=0
        for cell in $cells; do
            if [ "$column" -ge "$number" ]; then
                case $cell in X) cell=' X ' ;; esac
                line="$line	$cell"
            elif has "$shown" "$column"; then
                case $label in '') cell=GPU$seen ;; esac
                case $cell in X) cell=' X ' ;; esac
                seen=$((seen + 1))
                line="$line	$cell"
            fi
            column=$((column + 1))
        done
        printf '%s\t%s\n' "$line" "$tail"
        row=$((row + 1))
    done <matrix
    while IFS= read -r line; do
        printf '%s\n' "$line"
    done <legend
}

# -- the table -------------------------------------------------------------------------------------------------------------

rule='---------------------------------------------------------------------------------------'

table_gpu() {
    usage="0MiB / ${memory:-N/A}${memory:+MiB}"
    load='0%'
    case $mig in Enabled) load=N/A ;; esac
    mode=${mig#[}
    printf '| %3s  %-25.25s %7s  | %16s Off | %20s |\n' "$index" "$name" On "$bus" 0
    printf '| N/A   N/A    P0              N/A /  N/A | %20s | %7s %12s |\n' "$usage" "$load" Default
    printf '| %39s | %20s | %20s |\n' '' '' "${mode%]}"
    printf '+-----------------------------------------+----------------------+----------------------+\n'
}

table_slice() {
    device=$1
    IFS='|'
    # shellcheck disable=SC2086  (the fields of the line; file names are not expanded)
    set -- $2
    IFS=' '
    rows=yes
    printf '| %2s %4s %3s %3s  |%19s / %8s  | %-3s%6s | %2s %3s %4s %4s %4s |\n' "$index" "${3:--}" 0 "$device" \
        0MiB "${7:-N/A}${7:+MiB}" "${8:--}" 0 "${9:--}" "${10:--}" "${11:--}" "${12:--}" "${13:--}"
    printf '|                  |%19s / %8s  |           |                       |\n' 0MiB N/A
    printf '+------------------+--------------------------------+-----------+-----------------------+\n'
}

table_slices() {
    each_slice "$number" table_slice
}

any_mig() {
    case $mig in Enabled) enabled=yes ;; esac
}

table() {
    [ "$count" -gt 0 ] || fail 6 'No devices were found'
    printf '+%s+\n' "$rule"
    printf '| NVIDIA-SMI %-23sDriver Version: %-13sCUDA Version: %-9s|\n' "$driver" "$driver" "$cuda"
    printf '%s\n' '|-----------------------------------------+----------------------+----------------------+' \
        '| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |' \
        '| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |' \
        '|                                         |                      |               MIG M. |' \
        '|=========================================+======================+======================|'
    each_gpu table_gpu
    printf '%89s\n' ''
    enabled=
    each_gpu any_mig
    if [ "$enabled" ]; then
        printf '+%s+\n' "$rule"
        printf '%s\n' '| MIG devices:                                                                          |' \
            '+------------------+--------------------------------+-----------+-----------------------+' \
            '| GPU  GI  CI  MIG |                   Memory-Usage |        Vol|      Shared           |' \
            '|      ID  ID  Dev |                     BAR1-Usage | SM     Unc| CE ENC DEC OFA JPG    |' \
            '|                  |                                |        ECC|                       |' \
            '|==================+================================+===========+=======================|'
        rows=
        each_gpu table_slices
        if ! [ "$rows" ]; then
            printf '|  %-85s|\n' 'No MIG devices found'
            printf '+%s+\n' "$rule"
        fi
        printf '%89s\n' ''
    fi
    printf '+%s+\n' "$rule"
    printf '%s\n' '| Processes:                                                                            |' \
        '|  GPU   GI   CI        PID   Type   Process name                            GPU Memory |' \
        '|        ID   ID                                                             Usage      |' \
        '|=======================================================================================|' \
        '|  No running processes found                                                           |'
    printf '+%s+\n' "$rule"
}

# -- mig -lgi ------------------------------------------------------------------------------------------------------------

instance_row() {
    IFS='|'
    # shellcheck disable=SC2086  (as above)
    set -- $2
    IFS=' '
    if ! [ "$rows" ]; then
        printf '%s\n' '+-------------------------------------------------------+' \
            '| GPU instances:                                        |' \
            '| GPU   Name             Profile  Instance   Placement  |' \
            '|                          ID       ID       Start:Size |' \
            '|=======================================================|'
    fi
    rows=yes
    printf '| %3s  MIG %-14s %3s %8s %12s     |\n' "$index" "$2" "${6:--}" "${3:--}" "$4:${5:--}"
    printf '+-------------------------------------------------------+\n'
}

instances() {
    each_slice "$number" instance_row
}

# -- arguments -------------------------------------------------------------------------------------------------------------

form= query= format= selected= units=yes header=yes
while [ $# -gt 0 ]; do
    case $1 in
    -L | --list-gpus) [ "$form" ] && bad_arguments; form=list ;;
    --query-gpu=*) [ "$form" ] && bad_arguments; form=query query=${1#*=} ;;
    --format=*) format=${1#*=} ;;
    -i | --id) [ $# -ge 2 ] || bad_arguments; selected=$2; shift ;;
    -i=* | --id=*) selected=${1#*=} ;;
    topo | mig)
        [ "$selected" ] && fail 4 'The -i command line argument must be used in conjunction with -n or -p.'
        [ $# -eq 2 ] && ! [ "$form" ] || bad_arguments
        form="$1 $2"
        shift
        ;;
    *) bad_arguments ;;
    esac
    shift
done
if [ "$form" = query ]; then
    IFS=,
    csv=
    for word in $format; do
        case ${word# } in csv) csv=yes ;; noheader) header= ;; nounits) units= ;; *) bad_arguments ;; esac
    done
    IFS=' '
    [ "$csv" ] || bad_arguments
elif [ "$format" ]; then
    bad_arguments
fi

if [ "$selected" ]; then
    matched=
    each_gpu :
    [ "$matched" ] || fail 6 'No devices were found'
fi
case $form in
list)
    [ "$count" -gt 0 ] || fail 6 'No devices found.'
    each_gpu list_gpu
    ;;
query) query_gpus ;;
'topo -m' | 'topo --matrix') topo ;;
'mig -lgi' | 'mig --list-gpu-instances')
    enabled= rows=
    each_gpu any_mig
    [ "$enabled" ] || fail 6 'No MIG-enabled devices found.'
    each_gpu instances
    [ "$rows" ] || fail 6 'No GPU instances found: Not Found'
    ;;
'') table ;;
*) bad_arguments ;;
esac
