"""Bytecode of conditions. Expression trees and the types of their columns go in; instructions for the kernels' virtual machine come
out."""
