#!/bin/sh
# A simulated nvidia-smi: exactly two commands print ../answers/topo.txt and ../answers/inventory.txt; everything else
# fails as the real one does. Without an answer there is no driver.
PATH=/usr/bin:/bin
answers=${0%/*}/../answers

if [ $# -eq 2 ] && [ "$1" = topo ] && [ "$2" = -m ]; then
    answer=$answers/topo.txt
elif [ $# -eq 2 ] && [ "$1" = --query-gpu=index,uuid,pci.bus_id ] && [ "$2" = --format=csv,noheader ]; then
    answer=$answers/inventory.txt
else
    echo "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help."
    exit 2
fi

if [ -e "$answer.failed" ]; then
    { read -r status; cat; exit "$status"; } <"$answer.failed"
fi
if [ ! -e "$answer" ]; then
    printf '%s\n\n' "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running."
    exit 9
fi
exec cat "$answer"
