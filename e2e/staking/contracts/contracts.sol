// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

// Contracts that the tests of staked VVV deploy on a local chain. They are for tests alone.

// StakedVVV has what the gateway reads of Venice's staking contract on Base, which is the token of what is staked: balanceOf, with 18 decimals, and no
// transfers. Anybody may stake for anybody: there is no VVV to be taken.
contract StakedVVV {
    string public constant symbol = "sVVV";
    uint8 public constant decimals = 18;

    mapping(address => uint256) public balanceOf;

    event Transfer(address indexed from, address indexed to, uint256 value);

    function stake(address recipient, uint256 amount) external {
        balanceOf[recipient] += amount;
        emit Transfer(address(0), recipient, amount);
    }

    function unstake(address holder, uint256 amount) external {
        balanceOf[holder] -= amount;
        emit Transfer(holder, address(0), amount);
    }

    function transfer(address, uint256) external pure returns (bool) {
        revert("sVVV cannot be transferred");
    }
}
